// What a program is offered for a convolution, and what of it is to be measured.
#pragma once

#include <span>
#include <vector>

#include "convoy/selection.h"

namespace convoy::cli {

// `first`, then the front of cuDNN's heuristics' list, as long as benchmark mode would time it: those of them that can
// run and pass the filter.
std::vector<Candidate> offers(const ConvProblem& problem, std::span<const Candidate> first,
                              std::span<const Engine* const> engines, const SelectionFilter& filter,
                              const PlanRequest& request);

// Convoy's own engines and cuDNN's on channels-last copies, as they would choose their knobs: where they take a problem
// they tend to be worth most, and cuDNN's many configurations would take all of the time. Those that can run and pass
// the filter.
std::vector<Candidate> stand_ins(const ConvProblem& problem, std::span<const Engine* const> engines,
                                 const SelectionFilter& filter, const PlanRequest& request);

// Of some candidates those of which options.store has no settled time.
std::vector<Candidate> unsettled(const ConvProblem& problem, std::vector<Candidate> candidates,
                                 std::span<const Engine* const> engines, const SelectionOptions& options,
                                 const PlanRequest& request);

}  // namespace convoy::cli
