#include "network/cost/selector.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "convert/convert.h"
#include "core/notes.h"
#include "network/cost/measure_step.h"
#include "network/graph/conv_node.h"
#include "select/choose/candidates.h"
#include "select/choose/names.h"
#include "select/choose/notes.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

// Part of the keys: weights that come with each execution are packed every time, which changes who is fastest.
constexpr const char* variable_weights = " weights=variable";
constexpr const char* on_one_thread = " threads=1";

}  // namespace

Selector::Selector(const NetworkOptions& options, SelectionProgress progress,
                   std::span<const ConvolutionCandidates> candidates, std::span<const Engine* const> engines,
                   std::span<const Place> others)
    : options_(options), progress_(std::move(progress)), candidates_(candidates), engines_(engines) {
  places_.push_back({&processor(), {.threads = options.threads, .cpu = options.cpu}});
  places_.insert(places_.end(), others.begin(), others.end());
}

PlanRequest Selector::request_for(const ConvProblem& problem, const void* weights, int place, Threads threads) const {
  PlanRequest request = places_[static_cast<std::size_t>(place)].request;
  if (threads == Threads::one) request.threads = 1;
  if (request.packs_weights(problem)) request.constant_weights = weights;
  return request;
}

const void* Selector::weights_of(const Graph& graph, const Node& node, const ConvProblem& problem) {
  const HostTensor* const constant = graph.constant_of(conv_inputs(node).weights);
  if (constant == nullptr || constant->desc.type == problem.w.type) return constant ? constant->data.get() : nullptr;
  const auto [place, is_new] = narrowed_.try_emplace({constant->data.get(), problem.w.type});
  if (is_new) {
    auto made = converted(*constant, TensorDesc::packed(problem.w.type, constant->desc.dims));
    if (!made.ok()) return nullptr;  // no memory, which whoever makes the plan says
    place->second = std::move(*made);
  }
  return place->second.data.get();
}

ConvProblem Selector::allowed(ConvProblem problem) const {
  if (problem.compute == DataType::f32) problem.math = options_.math;
  return problem;
}

std::string Selector::key_of(const ConvProblem& problem, const std::string& node_name, const void* weights,
                             Threads threads) const {
  return print(problem) + (options_.selection.rules.empty() ? "" : " " + node_name) +
         (weights == nullptr ? variable_weights : "") + (threads == Threads::one ? on_one_thread : "");
}

void Selector::announce(const ConvProblem& problem, const std::string& node_name, const void* weights,
                        Threads threads) {
  const std::string key = key_of(problem, node_name, weights, threads);
  const bool known = std::ranges::any_of(announced_, [&](const Announced& each) { return each.key == key; });
  if (!known) announced_.push_back({key, problem, node_name, weights, threads});
}

Result<void> Selector::measure_announced() {
  const std::vector<Announced> all = std::exchange(announced_, {});
  double& left = options_.selection.budget_seconds;  // of the whole network
  if (all.empty() || options_.selection.mode != SelectionMode::measured || left <= 0) return {};
  selection::RoundStore rounds;
  const double end = monotonic_seconds() + left;
  const std::vector<double> weights(all.size(), 1);
  std::set<std::string> measured_now;
  const auto take = [&](const selection::Turn& turn) -> Result<selection::TurnOutcome> {
    const Announced& each = all[turn.problem];
    if (options_.selection.likely_only && !turn.likely_only) return selection::TurnOutcome{.settled = true};
    SelectionOptions options = options_.selection;
    options.budget_seconds = turn.seconds;
    options.likely_only = turn.likely_only;
    if (options.store == nullptr) options.store = &rounds;
    const PlanRequest request = request_for(each.problem, each.weights, 0, each.threads);
    bool measured = false;
    auto selection = select(each.problem, engines_, options, request, each.node_name,
                            [&](const Measurement& measurement, int done, int total) {
                              measured = true;
                              return !progress_ || progress_(measurement, done, total);
                            });
    if (measured) measured_now.insert(each.key);
    // A round that has nothing left to measure still chooses by what those before it have.
    if (selection.ok() && selection->by == SelectedBy::stored && measured_now.contains(each.key)) {
      selection->by = SelectedBy::measured;
    }
    const bool settled = selection.ok() ? !selection->partial : !turn.likely_only;
    chosen_.insert_or_assign(each.key, std::move(selection));
    return selection::TurnOutcome{settled, measured};
  };
  CONVOY_CHECK(selection::take_turns(
      weights, [&] { return end - monotonic_seconds(); }, take));
  const double rest = end - monotonic_seconds();
  left = rest > 0 ? rest : -1;
  return {};
}

Result<Selection> Selector::choose(const ConvProblem& problem, const std::string& node_name, const void* weights,
                                   Threads threads) {
  CONVOY_CHECK(measure_announced());
  const std::string key = key_of(problem, node_name, weights, threads);
  auto found = chosen_.find(key);
  if (found == chosen_.end()) {  // its size was not known beforehand
    const PlanRequest request = request_for(problem, weights, 0, threads);
    double& left = options_.selection.budget_seconds;
    const double start = monotonic_seconds();
    found = chosen_.emplace(key, select(problem, engines_, options_.selection, request, node_name, progress_)).first;
    if (left > 0) {
      left -= monotonic_seconds() - start;
      if (left <= 0) left = -1;
    }
  }
  if (!found->second.ok()) return found->second.error().within("node '" + node_name + "'");
  return *found->second;
}

Result<Selection> Selector::obey(const ConvProblem& problem, const Candidate& candidate, const void* weights,
                                 int place) const {
  CONVOY_CHECK(selection::check_candidate(candidate, engines_));
  const PlanRequest request = request_for(problem, weights, place);
  SelectionOptions options = options_.selection;
  options.rules = {{"*", candidate}};
  options.strict_rules = true;
  CONVOY_TRY(Selection selection, select(problem, engines_, options, request));
  selection.by = SelectedBy::plan;
  selection.rule.clear();
  return selection;
}

std::vector<CacheState> Selector::serving_caches(int place) const {
  const SelectionOptions& selection = options_.selection;
  if (selection.store == nullptr) return {};
  if (!selection.in_network || selection.caches == CacheState::cold) return {selection.caches};
  if (place != 0) return {CacheState::cold};  // the network is small for the processor
  return {selection.caches, CacheState::cold};
}

std::optional<Selector::Cost> Selector::cost(const ConvProblem& problem, const Selection& selection,
                                             const void* weights, int place, Threads threads) const {
  const PlanRequest request = request_for(problem, weights, place, threads);
  const auto engine = std::ranges::find_if(
      engines_, [&](const Engine* each) { return each->info().name == selection.candidate.engine; });
  if (engine == engines_.end()) return std::nullopt;
  const double predicted = (*engine)->predict_seconds(problem, selection.candidate.knobs, request);
  for (const CacheState caches : serving_caches(place)) {
    const auto known = options_.selection.store->find(measurement_key(problem, request, caches));
    for (const Measurement& m : known.ok() ? *known : std::vector<Measurement>()) {
      if (m.candidate == selection.candidate && m.state == MeasurementState::complete && is_current(m, engines_)) {
        return Cost{m.median_seconds, true, predicted, m.energy_joules, selection.candidate.engine};
      }
    }
  }
  return Cost{predicted, false, predicted, std::nullopt, selection.candidate.engine};
}

std::optional<Selector::Cost> Selector::estimate(const ConvProblem& problem, const std::string& node_name,
                                                 const void* weights, Threads threads) {
  const auto [place, is_new] = estimated_.try_emplace(key_of(problem, node_name, weights, threads));
  if (!is_new) return place->second;
  SelectionOptions options = options_.selection;
  options.mode = SelectionMode::heuristic;
  const auto selection = select(problem, engines_, options, request_for(problem, weights, 0, threads), node_name);
  if (selection.ok()) place->second = cost(problem, *selection, weights, 0, threads);
  return place->second;
}

const std::vector<Selector::Option>& Selector::options_of(const ConvProblem& problem, const std::string& node_name,
                                                          const void* weights) {
  const auto [place, is_new] = options_of_.try_emplace(key_of(problem, node_name, weights));
  std::vector<Option>& found = place->second;
  if (!is_new) return found;
  SelectionOptions options = options_.selection;
  options.mode = SelectionMode::heuristic;
  const PlanRequest request = request_for(problem, weights);
  const auto chosen = select(problem, engines_, options, request, node_name);
  if (!chosen.ok()) return found;
  std::vector<Option> all;
  const auto add = [&](const Selection& selection) {
    const auto known = cost(problem, selection, weights);
    if (known) all.push_back({selection.candidate, *known});
  };
  add(*chosen);
  if (chosen->rule.empty()) {
    for (const Candidate& each : rank_by_heuristic(problem, engines_, options.filter, request)) {
      if (each != chosen->candidate) add({each, SelectedBy::heuristic});
    }
  }
  if (all.empty()) return found;
  // The chosen one stays in front: the others may only look faster, having been measured less.
  std::stable_sort(all.begin() + 1, all.end(),
                   [](const Option& a, const Option& b) { return a.cost.seconds < b.cost.seconds; });
  const std::int64_t given = problem.w.bytes();
  for (Option& option : all) {
    option.cost.seconds = std::max(option.cost.seconds, all.front().cost.seconds);
    const auto seen = selection::plan_to_see(problem, option.candidate, engines_, request);
    if (!seen.ok()) continue;
    const bool packs = request.constant_weights != nullptr;
    option.weight_bytes = weights == nullptr ? 0
                          : packs            ? static_cast<std::int64_t>(seen->plan->retained_bytes())
                                             : given;
    if (found.empty() || option.weight_bytes < found.back().weight_bytes) found.push_back(option);
    if (found.back().weight_bytes <= given) break;  // packing seldom makes them fewer
  }
  return found;
}

Selector::Cost Selector::cost(const StepProblem& problem, Threads threads) {
  const auto [place, is_new] = step_costs_.try_emplace({print(problem), threads});
  Cost& cost = place->second;
  if (!is_new) return cost;
  PlanRequest request = places_.front().request;
  if (threads == Threads::one) request.threads = 1;
  const double predicted = predict_seconds(problem, request);
  for (const CacheState caches : serving_caches()) {
    if (const auto known = find_step(*options_.selection.store, problem, request, caches)) {
      return cost = {known->median_seconds, true, predicted, known->energy_joules, candidate_of(problem).engine};
    }
  }
  return cost = {predicted, false, predicted, std::nullopt, candidate_of(problem).engine};
}

double Selector::conversion_seconds(const TensorDesc& from, const TensorDesc& to, Threads threads) {
  return same_bytes(from, to) ? 0 : cost(ConversionProblem{from, to}, threads).seconds;
}

int Selector::switchable(const ConvProblem& problem) const {
  const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                  [&](const ConvolutionCandidates& each) { return each.problem == problem; });
  return found == candidates_.end() ? -1 : static_cast<int>(found - candidates_.begin());
}

bool Selector::computes_in(const ConvProblem& problem, const void* weights) const {
  std::vector<const Engine*> native(engines_.begin(), engines_.end());
  std::erase_if(
      native, [](const Engine* engine) { return selection::has_note(engine->info().notes, note::up_convert_inputs); });
  return predict_best(problem, native, options_.selection.filter, request_for(problem, weights)).has_value();
}

std::optional<double> Selector::predict(const ConvProblem& problem, const void* weights) {
  const std::string key = print(problem) + (weights == nullptr ? variable_weights : "");
  if (const auto found = predicted_.find(key); found != predicted_.end()) return found->second;
  const PlanRequest request = request_for(problem, weights);
  const auto best = predict_best(problem, engines_, options_.selection.filter, request);
  const std::optional<double> seconds = best ? std::optional(best->seconds) : std::nullopt;
  predicted_.emplace(key, seconds);
  return seconds;
}

}  // namespace convoy::network
