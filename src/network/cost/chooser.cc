#include "network/cost/chooser.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/side_by_side.h"
#include "core/notes.h"
#include "network/graph/conv_node.h"
#include "select/choose/candidates.h"
#include "select/choose/names.h"
#include "select/choose/notes.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

std::vector<Place> with_processor(const NetworkOptions& options, std::span<const Place> others) {
  std::vector<Place> places{{&processor(), {.threads = options.threads, .cpu = options.cpu}}};
  places.insert(places.end(), others.begin(), others.end());
  if (options.cuda && others.empty()) {
    const PlanRequest request{.cpu = options.cpu, .cuda = options.cuda};
    places.push_back({&device_of(request), request});
  }
  return places;
}

// What `find` finds, once.
template <class Value, class Find>
const Value& once(std::optional<Value>& known, Find find) {
  if (!known) known.emplace(find());
  return *known;
}

}  // namespace

Chooser::Chooser(const NetworkOptions& options, SelectionProgress progress,
                 std::span<const ConvolutionCandidates> candidates, std::span<const Engine* const> engines,
                 std::span<const Place> others)
    : options_(options),
      progress_(std::move(progress)),
      candidates_(candidates),
      engines_(engines),
      costs_(options.selection, engines, with_processor(options, others), options.cuda ? 1 : 0) {}

ConvQuery Chooser::query(const Graph& graph, const Node& node, ConvProblem problem, Threads threads, int place) {
  // Elsewhere than on the processor no plan reads them.
  const HostTensor* const constant = graph.constant_of(conv_inputs(node).weights);
  const void* const weights = place == 0            ? weights_.in_type(constant, problem.w.type)
                              : constant == nullptr ? nullptr
                                                    : constant->data.get();
  return {.problem = std::move(problem),
          .node = options_.selection.rules.empty() ? "" : node.desc.name,
          .weights = weights,
          .threads = threads,
          .place = place};
}

void Chooser::announce(const ConvQuery& query) {
  if (std::ranges::find(announced_, query) == announced_.end()) announced_.push_back(query);
}

void Chooser::ask_ahead(std::size_t count, const std::function<void(std::size_t)>& work) const {
  if (home() == 0) return;
  const Device& device = *places()[static_cast<std::size_t>(home())].device;
  side_by_side(count, [&](std::size_t i) {
    if (const auto entered = device.enter(); entered.ok()) work(i);  // else who asks later says why not
  });
}

Chooser::Known& Chooser::known(const ConvQuery& query) {
  const std::lock_guard lock(mutex_);
  return known_[query];  // stays where it is
}

Result<void> Chooser::measure_announced() {
  const std::vector<ConvQuery> all = std::exchange(announced_, {});
  double& left = options_.selection.budget_seconds;  // of the whole network
  if (all.empty() || options_.selection.mode != SelectionMode::measured || left <= 0) return {};
  selection::RoundStore rounds;
  const double end = monotonic_seconds() + left;
  const std::vector<double> weights(all.size(), 1);
  std::vector<bool> measured_now(all.size(), false);
  const auto take = [&](const selection::Slice& slice) -> Result<selection::SliceOutcome> {
    const ConvQuery& query = all[slice.problem];
    if (options_.selection.likely_only && !slice.likely_only) return selection::SliceOutcome{.settled = true};
    SelectionOptions options = options_.selection;
    options.budget_seconds = slice.seconds;
    options.likely_only = slice.likely_only;
    if (options.store == nullptr) options.store = &rounds;
    bool measured = false;
    auto selection = select(query.problem, engines_, options, costs_.request_for(query), query.node,
                            [&](const Measurement& measurement, int done, int total) {
                              measured = true;
                              return !progress_ || progress_(measurement, done, total);
                            });
    if (measured) measured_now[slice.problem] = true;
    // A round that has nothing left to measure still chooses by what those before it have.
    if (selection.ok() && selection->by == SelectedBy::stored && measured_now[slice.problem]) {
      selection->by = SelectedBy::measured;
    }
    const bool settled = selection.ok() ? !selection->partial : !slice.likely_only;
    known_[query].choice = std::move(selection);
    return selection::SliceOutcome{settled, measured};
  };
  CONVOY_CHECK(selection::measure_in_rounds(
      weights, [&] { return end - monotonic_seconds(); }, take));
  const double rest = end - monotonic_seconds();
  left = rest > 0 ? rest : -1;
  return {};
}

Result<Selection> Chooser::choose(const ConvQuery& query) {
  if (options_.selection.mode != SelectionMode::measured) {  // maybe on several threads
    Known& known = this->known(query);
    const std::lock_guard lock(known.mutex);
    return once(known.choice, [&] {
      return select(query.problem, engines_, options_.selection, costs_.request_for(query), query.node, progress_);
    });
  }
  CONVOY_CHECK(measure_announced());
  return once(known_[query].choice, [&] {  // its size was not known beforehand
    double& left = options_.selection.budget_seconds;
    const double start = monotonic_seconds();
    auto selection =
        select(query.problem, engines_, options_.selection, costs_.request_for(query), query.node, progress_);
    if (left > 0) {
      left -= monotonic_seconds() - start;
      if (left <= 0) left = -1;
    }
    return selection;
  });
}

Result<Selection> Chooser::obey(const ConvQuery& query, const Candidate& candidate) const {
  CONVOY_CHECK(selection::check_candidate(candidate, engines_));
  SelectionOptions options = options_.selection;
  options.rules = {{"*", candidate}};
  options.strict_rules = true;
  CONVOY_TRY(Selection selection, select(query.problem, engines_, options, costs_.request_for(query)));
  selection.by = SelectedBy::plan;
  selection.rule.clear();
  return selection;
}

Result<Selection> Chooser::select_unmeasured(const ConvQuery& query) const {
  SelectionOptions options = options_.selection;
  options.mode = SelectionMode::heuristic;
  return select(query.problem, engines_, options, costs_.request_for(query), query.node);
}

std::optional<Cost> Chooser::estimate(const ConvQuery& query) {
  Known& known = this->known(query);
  const std::lock_guard lock(known.mutex);
  return once(known.estimate, [&]() -> std::optional<Cost> {
    const auto selection = select_unmeasured(query);
    return selection.ok() ? costs_.of(query, selection->candidate) : std::nullopt;
  });
}

const std::vector<Chooser::Option>& Chooser::options_of(const ConvQuery& query) {
  return once(known_[query].options, [&] { return find_options(query); });
}

std::vector<Chooser::Option> Chooser::find_options(const ConvQuery& query) const {
  const auto chosen = select_unmeasured(query);
  if (!chosen.ok()) return {};
  const PlanRequest request = costs_.request_for(query);
  std::vector<Option> all;
  const auto add = [&](const Candidate& candidate) {
    if (const auto cost = costs_.of(query, candidate)) all.push_back({candidate, *cost});
  };
  add(chosen->candidate);
  if (chosen->rule.empty()) {
    for (const Candidate& each : rank_by_heuristic(query.problem, engines_, options_.selection.filter, request)) {
      if (each != chosen->candidate) add(each);
    }
  }
  if (all.empty()) return {};
  // The chosen one stays in front: the others may only look faster, having been measured less.
  std::stable_sort(all.begin() + 1, all.end(),
                   [](const Option& a, const Option& b) { return a.cost.seconds < b.cost.seconds; });
  const std::int64_t given = query.problem.w.bytes();
  std::vector<Option> found;
  for (Option& option : all) {
    option.cost.seconds = std::max(option.cost.seconds, all.front().cost.seconds);
    const auto seen = selection::plan_to_see(query.problem, option.candidate, engines_, request);
    if (!seen.ok()) continue;
    const bool packs = request.constant_weights != nullptr;
    option.weight_bytes = query.weights == nullptr ? 0
                          : packs                  ? static_cast<std::int64_t>(seen->plan->retained_bytes())
                                                   : given;
    if (found.empty() || option.weight_bytes < found.back().weight_bytes) found.push_back(option);
    if (found.back().weight_bytes <= given) break;  // packing seldom makes them fewer
  }
  return found;
}

int Chooser::switchable(const ConvProblem& problem) const {
  const auto found = std::ranges::find(candidates_, problem, &ConvolutionCandidates::problem);
  return found == candidates_.end() ? -1 : static_cast<int>(found - candidates_.begin());
}

bool Chooser::computes_in(const ConvQuery& query) const {
  std::vector<const Engine*> native(engines_.begin(), engines_.end());
  std::erase_if(
      native, [](const Engine* engine) { return selection::has_note(engine->info().notes, note::up_convert_inputs); });
  return predict_best(query.problem, native, options_.selection.filter, costs_.request_for(query)).has_value();
}

std::optional<double> Chooser::predict(const ConvQuery& query) {
  Known& known = this->known(query);
  const std::lock_guard lock(known.mutex);
  return once(known.prediction, [&] {
    const auto best = predict_best(query.problem, engines_, options_.selection.filter, costs_.request_for(query));
    return best ? std::optional(best->seconds) : std::nullopt;
  });
}

double Chooser::predict_at_least(const ConvQuery& query) {
  Known& known = this->known(query);
  const std::lock_guard lock(known.mutex);
  return once(known.bound, [&] {
    const SelectionFilter& filter = options_.selection.filter;
    return selection::predict_at_least(query.problem, engines_, filter, costs_.request_for(query)).value_or(0);
  });
}

}  // namespace convoy::network
