// What fusing the epilogue is worth: three variants of one problem, verified and timed side by side.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convoy/selection.h"
#include "select/measure/statistics.h"

namespace convoy::selection {

struct FusionVariant {
  std::string name;                 // "one plan", "convolution, then one pass", "separate steps"
  Candidate candidate;              // of its convolution
  std::vector<std::string> stages;  // the loops over memory: the plan's, then the passes
  Summary time;
  double max_error = 0;  // against the oracle, in units of the tolerance
};

struct FusionReport {
  std::vector<FusionVariant> variants;  // fastest first
};

// Runs the problem with its epilogue in one plan; its bare convolution followed by one pass that does the whole
// epilogue; and by one pass each for bias, residual and activation. Each variant gets the convolution that `options`
// select for what it asks of it. Errors: unsupported where no engine can or there are no passes for the problem (not
// f32, strided, wgrad, beta != 0), invalid_argument where there is no epilogue to fuse, wrong_result.
Result<FusionReport> measure_fusion(const ConvProblem& problem, std::span<const Engine* const> engines,
                                    const SelectionOptions& options, const PlanRequest& request);

}  // namespace convoy::selection
