#include "select/choose/remembered.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

namespace convoy::selection {
namespace {

const Measurement* find(std::span<const Measurement> known, const Candidate& candidate) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Measurement& measurement) { return measurement.candidate == candidate; });
  return found == known.end() ? nullptr : &*found;
}

Result<std::vector<Measurement>> find_current(MeasurementStore& store, const MeasurementKey& key,
                                              std::span<const Engine* const> engines) {
  CONVOY_TRY(std::vector<Measurement> known, store.find(key));
  std::erase_if(known, [&](const Measurement& measurement) { return !is_current(measurement, engines); });
  return known;
}

// Of the problem's own alignment, or else of the highest lower one.
Result<std::vector<Measurement>> find_serving(MeasurementStore& store, const ConvProblem& problem,
                                              const PlanRequest& request, CacheState caches,
                                              std::span<const Engine* const> engines) {
  MeasurementKey key = measurement_key(problem, request, caches);
  CONVOY_TRY(std::vector<Measurement> known, find_current(store, key, engines));
  if (!known.empty()) return known;
  for (const ConvProblem& lower : with_lower_alignments(problem)) {
    key.problem = print(lower);
    CONVOY_TRY(known, find_current(store, key, engines));
    std::erase_if(known, [](const Measurement& measurement) { return measurement.failure.has_value(); });
    if (!known.empty()) break;
  }
  return known;
}

}  // namespace

void sort_measurements(std::vector<Measurement>& measurements) {
  const auto rank = [](const Measurement& m) {
    return std::tuple(m.failure.has_value(), m.state == MeasurementState::cut_off, m.failure ? 0 : m.median_seconds);
  };
  std::stable_sort(measurements.begin(), measurements.end(),
                   [&](const Measurement& a, const Measurement& b) { return rank(a) < rank(b); });
}

Result<Remembered> recall(MeasurementStore& store, const MeasurementKey& key, std::span<const Candidate> contestants,
                          std::span<const Engine* const> engines) {
  CONVOY_TRY(const std::vector<Measurement> known, find_current(store, key, engines));
  double best = std::numeric_limits<double>::infinity();
  bool any_open = false;
  for (const Candidate& contestant : contestants) {
    const Measurement* measurement = find(known, contestant);
    any_open = any_open || measurement == nullptr || measurement->state == MeasurementState::partial;
    if (measurement != nullptr && measurement->state == MeasurementState::complete && !measurement->failure) {
      best = std::min(best, measurement->median_seconds);
    }
  }
  Remembered remembered;
  for (const Candidate& contestant : contestants) {
    const Measurement* measurement = find(known, contestant);
    const bool settled = measurement != nullptr && (measurement->state == MeasurementState::complete ||
                                                    (measurement->state == MeasurementState::cut_off &&
                                                     (!any_open || measurement->median_seconds > kHopeless * best)));
    if (settled) {
      remembered.settled.push_back(*measurement);
    } else {
      remembered.open.push_back(contestant);
    }
  }
  return remembered;
}

Result<std::vector<Measurement>> recall_for_choice(MeasurementStore& store, const ConvProblem& problem,
                                                   const PlanRequest& request, CacheState caches,
                                                   std::span<const Candidate> ranked,
                                                   std::span<const Engine* const> engines) {
  const auto named = [&](const Measurement& measurement) {
    return std::any_of(ranked.begin(), ranked.end(),
                       [&](const Candidate& candidate) { return candidate.engine == measurement.candidate.engine; });
  };
  CONVOY_TRY(std::vector<Measurement> known, find_serving(store, problem, request, caches, engines));
  if (find(known, ranked.front()) == nullptr) return std::vector<Measurement>();
  std::erase_if(known, [&](const Measurement& measurement) { return !named(measurement); });
  sort_measurements(known);
  return known;
}

Result<bool> is_remembered(MeasurementStore& store, const ConvProblem& problem, const PlanRequest& request,
                           CacheState caches, std::span<const Engine* const> engines) {
  CONVOY_TRY(const auto known, find_serving(store, problem, request, caches, engines));
  return !known.empty();
}

std::vector<ConvProblem> with_lower_alignments(const ConvProblem& problem) {
  const std::array sizes = {size_of(problem.x.type), size_of(problem.w.type), size_of(problem.y.type)};
  const auto least = static_cast<std::int64_t>(*std::min_element(sizes.begin(), sizes.end()));
  std::vector<ConvProblem> lower;
  const ConvProblem* last = &problem;
  for (std::int64_t most = TensorDesc().alignment / 2; most >= least; most /= 2) {
    ConvProblem next = problem;
    for (TensorDesc* desc : {&next.x, &next.w, &next.y}) desc->alignment = std::min(desc->alignment, most);
    if (next == *last) continue;
    lower.push_back(std::move(next));
    last = &lower.back();
  }
  return lower;
}

}  // namespace convoy::selection
