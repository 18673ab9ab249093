// Engines whose estimate gets better in steps, the cheap ones first.
#pragma once

#include <optional>

#include "convoy/engine.h"

namespace convoy {

// Implemented by engines whose estimate() asks nobody: a lower bound of what asking a provider would give.
class RefinesEstimates {
 public:
  // A better estimate than the one before, no smaller: after so many steps, 0 at first. Once it is certain there are no
  // more steps. Nothing: the engine can't run the problem.
  virtual std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest& request, int steps) const = 0;

 protected:
  ~RefinesEstimates() = default;
};

// For engines that don't, the first step is the certain one.
inline std::optional<Estimate> refined(const Engine& engine, const ConvProblem& problem, const PlanRequest& request,
                                       int steps) {
  const auto* refines = dynamic_cast<const RefinesEstimates*>(&engine);
  return refines != nullptr ? refines->refine(problem, request, steps) : certain_estimate(engine, problem, request);
}

}  // namespace convoy
