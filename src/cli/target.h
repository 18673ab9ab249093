// What a person may name as a target: an ONNX file, zoo:NAME, a problem list, a record of convoy exec, or a problem
// string.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "core/problem_list.h"
#include "report/record.h"

namespace convoy::cli {

struct Target {
  std::string name;
  std::unique_ptr<Network> network;     // an ONNX file or a network of the zoo
  std::vector<ListedProblem> problems;  // a list, a record or one problem; empty for a network
  std::optional<report::Record> record;
};

// A list "problems/NAME.txt" that is not in the current folder is the one that comes with the command.
// --dim is refused where there is no network.
Result<Target> open_target(const std::string& text, const std::vector<std::string>& dim_flags = {});

// The same, where only a network makes sense.
Result<std::unique_ptr<Network>> open_network(const std::string& text);

// The problem in another data type or pass. f16, bf16 and f8 accumulate in f32; s8 and u8 give x that type, s8 weights
// and an s32 output. dgrad and wgrad drop the epilogue.
Result<ConvProblem> with_data_type(ConvProblem problem, DataType type);
ConvProblem with_pass(ConvProblem problem, Pass pass);

}  // namespace convoy::cli
