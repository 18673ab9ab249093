// Measured selection: what is measured, in which order, for how long, and who wins.
#pragma once

#include <span>

#include "convoy/selection.h"
#include "select/measure/planner.h"

namespace convoy::selection {

// `ranked`: the candidates that pass the filter, best predicted first, not empty. In that order each that the store
// does not know is planned, verified and timed once; those that can't win any more are cut off, the others are timed
// side by side; then, if options.all_knobs, knob values are searched, the best engines' first, for as long as there is
// time. What is measured is stored as it goes. It ends within options.budget_seconds (see there), or as soon as
// options.stop or `progress` say so, with what is known by then; where nothing is, with the heuristic's choice.
// Candidates that are refused when they are planned have a failure of code `unsupported`. The first `wanted` of
// `ranked` are measured before the others whatever is predicted of them, and the very first yields only to what is
// faster beyond doubt. `to_the_end`: none is cut off for being slow.
Result<Selection> choose_by_measuring(const ConvProblem& problem, std::span<const Candidate> ranked, std::size_t wanted,
                                      std::span<const Engine* const> engines, const SelectionOptions& options,
                                      const PlanRequest& request, bool to_the_end, const SelectionProgress& progress);

// select() in measured mode that times every candidate to the end, however slow.
Result<Selection> select_to_the_end(const ConvProblem& problem, std::span<const Engine* const> engines,
                                    const SelectionOptions& options, const PlanRequest& request,
                                    std::string_view node_name, const SelectionProgress& progress);

// select() in measured mode, with `first` before all others: those of them that can run the problem and pass the
// filter. What a program runs on today, say, so that there is something to compare with however small the budget is.
Result<Selection> select_with_first(const ConvProblem& problem, std::span<const Engine* const> engines,
                                    const SelectionOptions& options, const PlanRequest& request,
                                    std::span<const Candidate> first, const SelectionProgress& progress);

// The same with `candidates` and no others, all of which can run the problem and pass the filter, and with less effort:
// one that takes over 1.25 times as long as the best is cut off after its first time, and few samples are taken of the
// rest, as who times what cuDNN offers before a program starts wants it. `planned`: plans of those that the store does
// not know, being made; null: they are made here.
Result<Selection> measure_offered(const ConvProblem& problem, std::span<const Candidate> candidates,
                                  std::span<const Engine* const> engines, const SelectionOptions& options,
                                  const PlanRequest& request, Planner::Batch* planned,
                                  const SelectionProgress& progress);

}  // namespace convoy::selection
