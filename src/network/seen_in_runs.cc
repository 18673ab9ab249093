#include "network/seen_in_runs.h"

#include <algorithm>
#include <utility>

namespace convoy::network {
namespace {

std::string without_epilogue(ConvProblem problem) {
  const Epilogue given = std::exchange(problem.epilogue, {});
  problem.epilogue.requantize = given.requantize;  // its types stand in the tensors
  return print(problem);
}

}  // namespace

void SeenInRuns::add(const Timed& timed) {
  for (std::size_t i = 0; i < timed.steps.size() && i < timed.step_seconds.size(); ++i) {
    const NetworkStep& step = timed.steps[i];
    if (step.kind != "conv") continue;
    for (auto* of_problem : {&seen_[print(step.problem)], &with_epilogue_[without_epilogue(step.problem)]}) {
      auto seen = std::ranges::find_if(*of_problem, [&](const Seen& other) {
        return other.candidate == step.selection.candidate && other.threads == step.threads;
      });
      if (seen == of_problem->end()) seen = of_problem->insert(seen, {step.selection.candidate, step.threads});
      seen->seconds += timed.step_seconds[i];
      ++seen->places;
    }
  }
}

const std::vector<SeenInRuns::Seen>* SeenInRuns::seen_of(const std::string& problem) const {
  if (const auto found = seen_.find(problem); found != seen_.end()) return &found->second;
  const auto parsed = parse_problem(problem);
  const auto found = parsed.ok() ? with_epilogue_.find(without_epilogue(*parsed)) : with_epilogue_.end();
  return found == with_epilogue_.end() ? nullptr : &found->second;
}

Result<std::vector<Measurement>> SeenInRuns::find(const MeasurementKey& key) {
  std::vector<Measurement> found;
  if (alone_ != nullptr) {
    CONVOY_TRY(found, alone_->find(key));
  }
  if (key.caches == CacheState::network) return found;  // verdicts on candidates that ran side by side
  const std::vector<Seen>* const known = seen_of(key.problem);
  for (const Seen& seen : known == nullptr ? std::vector<Seen>() : *known) {
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
