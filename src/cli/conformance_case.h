// One ONNX test folder: model.onnx and test_data_set_N/{input,output}_K.pb.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/network.h"

namespace convoy::cli {

struct Tolerances {
  std::optional<double> relative;  // the defaults of `allowed_error` where not set
  std::optional<double> absolute;
};

struct Comparison {
  bool ok = true;
  std::string reason;         // of the first kind of fault found
  double max_error = 0;       // largest |actual - expected|; infinite where only one of them is finite
  double max_tolerances = 0;  // largest |actual - expected| / (absolute + relative*|expected|)
};

// ONNX's defaults (rtol 1e-3, atol 1e-7), or atol 1e-6 of the output's largest magnitude, 2e-5 at most, since what is 0
// by cancellation (a Gelu's tail) is some roundings of it; atol 1e-5 of that magnitude
// for models of more than ten nodes; rtol 1e-2 and atol 1e-3 for f16, bf16 and f8 outputs; `quantized` 8- and 16-bit
// integer outputs may differ by 1, other integers and booleans not at all. NaN equals NaN.
Comparison compare_outputs(const HostTensor& actual, const HostTensor& expected, int node_count, bool quantized,
                           const Tolerances& tolerances);

enum class CaseStatus { passed, failed, unsupported };
std::string_view name_of(CaseStatus status);

struct CaseResult {
  CaseStatus status = CaseStatus::failed;
  std::string reason;
  double max_error = std::numeric_limits<double>::quiet_NaN();  // NaN where nothing was compared
  double max_tolerances = std::numeric_limits<double>::quiet_NaN();
  std::set<std::string> on_processor;  // what steps of a network on a GPU ran there all the same
};

// Runs all data sets of the folder in this process. Models with DFT or STFT have an absolute tolerance of 2e-5 where
// none is given.
CaseResult run_case(const std::string& folder, const NetworkOptions& options, Tolerances tolerances);

// The folders below `root` (itself included) that hold a model.onnx, sorted. Names are relative to `root`.
struct CaseFolder {
  std::string name;
  std::string path;
};
Result<std::vector<CaseFolder>> find_cases(const std::string& root);

}  // namespace convoy::cli
