#include "network/cost/cost_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "convert/convert.h"
#include "core/hash.h"
#include "network/cost/measure_step.h"

namespace convoy::network {
namespace {

// Structured bindings have to name all members: a new field doesn't compile until it is compared and hashed here.
auto key_of(const ConvQuery& query) {
  const auto& [problem, node, weights, threads, place] = query;
  return std::tuple<const ConvProblem&, const std::string&, bool, Threads, int>(problem, node, weights != nullptr,
                                                                                threads, place);
}

double in_run(double alone, const PlanRequest& request) {
  return request.cuda ? std::max(alone - kGpuAloneOverRun, 0.1 * alone) : alone;
}

}  // namespace

bool operator==(const ConvQuery& a, const ConvQuery& b) { return key_of(a) == key_of(b); }

std::size_t HashOfConvQuery::operator()(const ConvQuery& query) const {
  const auto& [problem, node, has_weights, threads, place] = key_of(query);
  Hash hash;
  hash.add(hash_of(problem, problem.x.alignment, problem.w.alignment, problem.y.alignment), std::string_view(node),
           has_weights, threads, place);
  return hash.value();
}

CostTable::CostTable(const SelectionOptions& options, std::span<const Engine* const> engines, std::vector<Place> places,
                     int home)
    : store_(options.store),
      caches_(options.caches),
      in_network_(options.in_network),
      engines_(engines),
      places_(std::move(places)),
      home_(home) {}

PlanRequest CostTable::request_for(const ConvQuery& query) const {
  PlanRequest request = request_on(places_[static_cast<std::size_t>(query.place)], query.threads);
  if (request.packs_weights(query.problem)) request.constant_weights = query.weights;
  return request;
}

std::vector<CacheState> CostTable::serving_caches(int place) const {
  if (store_ == nullptr) return {};
  if (!in_network_ || caches_ == CacheState::cold) return {caches_};
  if (place != 0) return {CacheState::cold};  // the network is small for the processor
  return {caches_, CacheState::cold};
}

std::optional<Cost> CostTable::of(const ConvQuery& query, const Candidate& candidate) const {
  const PlanRequest request = request_for(query);
  const auto engine =
      std::ranges::find_if(engines_, [&](const Engine* each) { return each->info().name == candidate.engine; });
  if (engine == engines_.end()) return std::nullopt;
  const double predicted = (*engine)->predict_seconds(query.problem, candidate.knobs, request);
  for (const CacheState caches : serving_caches(query.place)) {
    const auto known = store_->find(measurement_key(query.problem, request, caches));
    for (const Measurement& m : known.ok() ? *known : std::vector<Measurement>()) {
      if (m.candidate == candidate && m.state == MeasurementState::complete && is_current(m, engines_)) {
        return Cost{in_run(m.median_seconds, request), true, predicted, m.energy_joules, candidate.engine};
      }
    }
  }
  return Cost{predicted, false, predicted, std::nullopt, candidate.engine};
}

const Cost& CostTable::of(const StepProblem& problem, Threads threads, std::optional<int> said) {
  const int place = said.value_or(home_);
  const auto [found, is_new] = steps_.try_emplace({print(problem), threads, place});
  Cost& cost = found->second;
  if (!is_new) return cost;
  const PlanRequest request = request_on(places_[static_cast<std::size_t>(place)], threads);
  const double predicted = predict_seconds(problem, request);
  const std::string runs_on = candidate_of(problem).engine;
  for (const CacheState caches : serving_caches(place)) {
    if (const auto known = find_step(*store_, problem, request, caches)) {
      return cost = {in_run(known->median_seconds, request), true, predicted, known->energy_joules, runs_on};
    }
  }
  return cost = {predicted, false, predicted, std::nullopt, runs_on};
}

double CostTable::seconds_of_conversion(const TensorDesc& from, const TensorDesc& to, Threads threads) {
  return same_bytes(from, to) ? 0 : of(ConversionProblem{from, to}, threads).seconds;
}

}  // namespace convoy::network
