// A first look at a problem's candidates, for those who then time the promising ones where they will run.
#pragma once

#include <span>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

struct Screening {
  std::vector<Measurement> right;  // the heuristic's choice (or who was predicted next, where that is wrong) first,
                                   // then the fastest first; times are of few executions with warm caches (of more,
                                   // where they are far above the prediction), unless the store had better ones
  std::vector<Measurement> wrong;  // that failed
  int measured = 0;                // by this call; the others were stored
  bool partial = false;            // it ended before all had their turn
};

// Engines predicted to be fast, with their default knobs and with others predicted to be (almost) as fast; with
// options.all_knobs, every engine and knob value but oracles. Each that the store (not null) has nothing current of is
// planned, verified, timed roughly and stored, best predicted first, within options.budget_seconds (0: no limit) and
// until options.stop or `progress` say so. The filter applies. request.constant_weights is not read: not null, it says
// that weights are constant.
Result<Screening> screen(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request,
                         const SelectionProgress& progress = {});

}  // namespace convoy::selection
