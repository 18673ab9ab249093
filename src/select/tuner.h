// Measured selection: what is measured, in which order, for how long, and who wins.
#pragma once

#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

// `ranked`: the candidates that pass the filter, best predicted first, not empty. In that order each that the store
// does not know is planned, verified and timed once; those that can't win any more are cut off, the others are timed
// side by side; then, if options.all_knobs, knob values are searched, the best engines' first, for as long as there is
// time. What is measured is stored as it goes. It ends within options.budget_seconds (see there), or as soon as
// options.stop or `progress` say so, with what is known by then; where nothing is, with the heuristic's choice.
// Candidates that are refused when they are planned have a failure of code `unsupported`.
Result<Selection> choose_by_measuring(const ConvProblem& problem, std::span<const Candidate> ranked,
                                      std::span<const Engine* const> engines, const SelectionOptions& options,
                                      const PlanRequest& request, const SelectionProgress& progress);

}  // namespace convoy::selection
