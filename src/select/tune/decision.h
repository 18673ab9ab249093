// Who wins of what was measured, or why nobody does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

// What measuring a problem's candidates came to.
struct Measured {
  std::vector<Measurement> measurements;  // the store's, too
  bool any_new = false;                   // not all are the store's
  bool partial = false;                   // something that may win was not measured, or not to the end
  int done = 0, total = 0;                // candidates
  std::string excluded;                   // by what only plans know, a line each
  std::optional<Error> lost;              // the device, while it measured
  std::optional<Error> not_stored;
};

class Decision {
 public:
  // `ranked`: best predicted first. All must stay.
  Decision(const ConvProblem& problem, std::span<const Candidate> ranked, std::span<const Engine* const> engines,
           const SelectionOptions& options, const PlanRequest& request)
      : problem_(problem), ranked_(ranked), engines_(engines), options_(options), request_(request) {}

  // The best of them by the objective; where none was right and some were not tried, the heuristic's choice of those.
  Result<Selection> of(Measured measured);

 private:
  Result<Selection> without_winner(Selection selection) const;
  Error nobody(ErrorCode code, std::string_view what, const Selection& selection) const;

  const ConvProblem& problem_;
  std::span<const Candidate> ranked_;
  std::span<const Engine* const> engines_;
  const SelectionOptions& options_;
  const PlanRequest& request_;
  Measured measured_;
};

}  // namespace convoy::selection
