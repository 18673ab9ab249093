#include "network/seen_in_runs.h"

#include <algorithm>

namespace convoy::network {

void SeenInRuns::add(const Timed& timed) {
  for (std::size_t i = 0; i < timed.steps.size() && i < timed.step_seconds.size(); ++i) {
    const NetworkStep& step = timed.steps[i];
    if (step.kind != "conv") continue;
    std::vector<Seen>& of_problem = seen_[print(step.problem)];
    auto seen = std::ranges::find_if(of_problem, [&](const Seen& other) {
      return other.candidate == step.selection.candidate && other.threads == step.threads;
    });
    if (seen == of_problem.end()) seen = of_problem.insert(seen, {step.selection.candidate, step.threads});
    seen->seconds += timed.step_seconds[i];
    ++seen->places;
  }
}

Result<std::vector<Measurement>> SeenInRuns::find(const MeasurementKey& key) {
  std::vector<Measurement> found;
  if (alone_ != nullptr) {
    CONVOY_TRY(found, alone_->find(key));
  }
  if (key.caches == CacheState::network) return found;  // verdicts on candidates that ran side by side
  const auto known = seen_.find(key.problem);
  for (const Seen& seen : known == seen_.end() ? std::vector<Seen>() : known->second) {
    if (seen.threads != key.threads) continue;
    const Candidate& candidate = seen.candidate;
    auto place = std::ranges::find(found, candidate, &Measurement::candidate);
    if (place == found.end()) {
      const auto engine =
          std::ranges::find_if(engines_, [&](const Engine* each) { return each->info().name == candidate.engine; });
      if (engine == engines_.end()) continue;
      const EngineInfo& info = (*engine)->info();
      place = found.insert(
          found.end(), {.candidate = candidate, .revision = info.revision, .provider = info.provider, .samples = 1});
    }
    place->median_seconds = seen.seconds / seen.places;
    place->state = MeasurementState::complete;
  }
  return found;
}

Result<void> SeenInRuns::store(const MeasurementKey& key, const Measurement& measurement) {
  return alone_ != nullptr ? alone_->store(key, measurement) : Result<void>();
}

}  // namespace convoy::network
