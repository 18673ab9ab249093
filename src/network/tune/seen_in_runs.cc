#include "network/tune/seen_in_runs.h"

#include <algorithm>
#include <utility>

#include "network/cost/cost_table.h"
#include "network/cost/step_problem.h"
#include "select/measure/step_measurement.h"

namespace convoy::network {
namespace {

std::string without_epilogue(ConvProblem problem) {
  const Epilogue given = std::exchange(problem.epilogue, {});
  problem.epilogue.requantize = given.requantize;  // its types stand in the tensors
  return print(problem);
}

}  // namespace

void SeenInRuns::add(std::vector<Seen>& of_problem, const Candidate& candidate, int threads, double seconds) {
  auto seen = std::ranges::find_if(
      of_problem, [&](const Seen& other) { return other.candidate == candidate && other.threads == threads; });
  if (seen == of_problem.end()) seen = of_problem.insert(seen, {candidate, threads});
  seen->seconds += seconds;
  ++seen->places;
}

void SeenInRuns::add(const Timed& timed, double scale) {
  for (std::size_t i = 0; i < timed.steps.size() && i < timed.step_seconds.size(); ++i) {
    const NetworkStep& step = timed.steps[i];
    const double seconds = scale * timed.step_seconds[i];
    if (step.kind == "conv") {
      const Candidate& candidate = step.selection.candidate;
      add(seen_[print(step.problem)], candidate, step.threads, seconds);
      add(with_epilogue_[without_epilogue(step.problem)], candidate, step.threads, seconds);
    } else if (const auto problem = parse_step(step.step_problem); problem.ok()) {
      add(seen_[step.step_problem], candidate_of(*problem), step.threads, seconds);
    }
  }
}

const std::vector<SeenInRuns::Seen>* SeenInRuns::seen_of(const std::string& problem) const {
  if (const auto found = seen_.find(problem); found != seen_.end()) return &found->second;
  if (selection::is_step_problem(problem)) return nullptr;
  const auto parsed = parse_problem(problem);
  const auto found = parsed.ok() ? with_epilogue_.find(without_epilogue(*parsed)) : with_epilogue_.end();
  return found == with_epilogue_.end() ? nullptr : &found->second;
}

std::optional<Measurement> SeenInRuns::measurement_of(const Candidate& candidate) const {
  Measurement result{.candidate = candidate, .samples = 1};
  if (selection::is_step(candidate)) {
    result.revision = selection::kStepRevision;
    result.provider = selection::step_provider();
    return result;
  }
  const auto engine =
      std::ranges::find_if(engines_, [&](const Engine* each) { return each->info().name == candidate.engine; });
  if (engine == engines_.end()) return std::nullopt;
  result.revision = (*engine)->info().revision;
  result.provider = (*engine)->info().provider;
  return result;
}

Result<std::vector<Measurement>> SeenInRuns::find(const MeasurementKey& key) {
  std::vector<Measurement> found;
  if (alone_ != nullptr) {
    CONVOY_TRY(found, alone_->find(key));
  }
  if (key.caches == CacheState::network) return found;  // verdicts on candidates that ran side by side
  CONVOY_TRY(const std::vector<Measurement> since, measured_since_.find(key));
  for (const Measurement& measurement : since) {
    std::erase_if(found, [&](const Measurement& known) { return known.candidate == measurement.candidate; });
    found.push_back(measurement);
  }
  for (Measurement& measurement : found) measurement.median_seconds *= over_alone_;
  const std::vector<Seen>* const known = seen_of(key.problem);
  for (const Seen& seen : known == nullptr ? std::vector<Seen>() : *known) {
    if (seen.threads != key.threads) continue;
    auto place = std::ranges::find(found, seen.candidate, &Measurement::candidate);
    if (place == found.end()) {
      const auto measurement = measurement_of(seen.candidate);
      if (!measurement) continue;
      place = found.insert(found.end(), *measurement);
    }
    place->median_seconds = seen.seconds / seen.places + (key.device.starts_with("cuda ") ? kGpuAloneOverRun : 0);
    place->state = MeasurementState::complete;
  }
  return found;
}

Result<void> SeenInRuns::store(const MeasurementKey& key, const Measurement& measurement) {
  return measured_since_.store(key, measurement);
}

}  // namespace convoy::network
