// Candidates that an engine itself would try, besides its defaults.
#pragma once

#include <vector>

#include "convoy/engine.h"

namespace convoy {

// Implemented by the engines that know more than one good configuration, say from a provider's own heuristics.
class HasSuggestions {
 public:
  // Best first; the default may be among them, and they may leave knobs out (completed()). Called only for problems
  // that were not refused.
  virtual std::vector<KnobValues> suggestions(const ConvProblem& problem, const PlanRequest& request) const = 0;

 protected:
  ~HasSuggestions() = default;
};

// Empty where the engine has none.
inline std::vector<KnobValues> suggestions_of(const Engine& engine, const ConvProblem& problem,
                                              const PlanRequest& request) {
  const auto* suggests = dynamic_cast<const HasSuggestions*>(&engine);
  return suggests != nullptr ? suggests->suggestions(problem, request) : std::vector<KnobValues>();
}

}  // namespace convoy
