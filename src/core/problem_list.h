// Lists of problems in text files (problems/README.md has the format): suites for benches, tests and tuning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"

namespace convoy {

struct ListedProblem {
  std::int64_t count = 1;  // how often it occurs, for a network's layers
  ConvProblem problem;     // valid
  std::string name;        // of the layer, for people; may be empty
  int line = 0;            // in the file, from 1
};

// One "[COUNT] PROBLEM [# NAME]" a line; empty lines and lines that start with '#' say nothing. Errors name `file` and
// the line: "problems/a.txt:7: x: 'f31' ...". A list without problems is an error too.
Result<std::vector<ListedProblem>> parse_problem_list(std::string_view text, std::string_view file);

// The same for a file; at most 16 MiB are read.
Result<std::vector<ListedProblem>> read_problem_list(const std::string& path);

}  // namespace convoy
