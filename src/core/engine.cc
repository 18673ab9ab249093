#include "convoy/engine.h"

#include <algorithm>

namespace convoy {

KnobValues default_knobs(const std::vector<Knob>& knobs) {
  KnobValues values;
  values.reserve(knobs.size());
  for (const Knob& knob : knobs) values.push_back({knob.name, knob.values.front()});
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

std::optional<Estimate> certain_estimate(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
  if (engine.check(problem, request)) return std::nullopt;
  Estimate estimate;
  estimate.knobs = default_knobs(engine.knobs(problem, request));
  estimate.seconds = engine.predict_seconds(problem, estimate.knobs, request);
  return estimate;
}

std::optional<Estimate> Engine::estimate(const ConvProblem& problem, const PlanRequest& request) const {
  return certain_estimate(*this, problem, request);
}

}  // namespace convoy
