// Measured selection: plan, verify against the oracle, time side by side.
#pragma once

#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

// Measures the candidates in the given order (best guess first) and returns them fastest first, failures last. A
// candidate is planned, run once on NaN-filled output and workspace and compared with the oracle; only then may its
// time count. One that is more than `hopeless` times slower than the best so far keeps its first time and is not timed
// again. `budget_seconds` (0: none) ends it early; what was measured until then is returned.
Result<std::vector<Measurement>> measure(const ConvProblem& problem, std::span<const Candidate> candidates,
                                         std::span<const Engine* const> engines, const PlanRequest& request,
                                         double budget_seconds, const SelectionProgress& progress);

}  // namespace convoy::selection
