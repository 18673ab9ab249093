// Measured selection: plan, verify against the oracle, time side by side.
#pragma once

#include <functional>
#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

// Measures the candidates in the given order (best guess first) and returns them fastest first, failures last. A
// candidate is planned, run once on NaN-filled output and workspace and compared with the oracle; only then may its
// time count. One that is more than `hopeless` times slower than the best so far keeps its first time and is not timed
// again. options.budget_seconds (0: none) or options.stop end it early; what was measured until then is returned.
// `record` gets each measurement as soon as it exists: as partial after the first run, then again when it is settled.
Result<std::vector<Measurement>> measure(const ConvProblem& problem, std::span<const Candidate> candidates,
                                         std::span<const Engine* const> engines, const PlanRequest& request,
                                         const SelectionOptions& options,
                                         const std::function<void(const Measurement&)>& record,
                                         const SelectionProgress& progress);

}  // namespace convoy::selection
