// Choosing without measuring.
#pragma once

#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

// Whether the choice is left to predict_best() alone: nothing is measured, nothing that only plans know counts, and
// there is no memory (on a GPU: nothing of the problem in it).
Result<bool> decided_by_prediction(const ConvProblem& problem, std::span<const Engine* const> engines,
                                   const SelectionOptions& options, const PlanRequest& request);

// The best predicted of `ranked` (best first, not empty) that passes the filter. Plans are made only where the filter
// or the objective asks for what only they know, or the request for less than the whole device.
Result<Selection> choose_by_heuristic(const ConvProblem& problem, std::span<const Candidate> ranked,
                                      std::span<const Engine* const> engines, const SelectionOptions& options,
                                      const PlanRequest& request);

// What was measured before decides, if the store can tell; otherwise nothing.
Result<std::optional<Selection>> choose_by_memory(const ConvProblem& problem, std::span<const Candidate> ranked,
                                                  std::span<const Engine* const> engines,
                                                  const SelectionOptions& options, const PlanRequest& request);

}  // namespace convoy::selection
