#include "select/choose/heuristic.h"

#include <fmt/format.h>

#include <algorithm>

#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/choose/objective.h"
#include "select/choose/remembered.h"

namespace convoy::selection {

namespace {

// Whether a candidate keeps to a GPU's target_sms is known by its launches.
bool plans_count(const SelectionOptions& options, const PlanRequest& request) {
  return needs_plan(options.filter) || options.objective.workspace != 0 || request.target_sms > 0;
}

}  // namespace

Result<bool> decided_by_prediction(const ConvProblem& problem, std::span<const Engine* const> engines,
                                   const SelectionOptions& options, const PlanRequest& request) {
  if (options.mode != SelectionMode::heuristic || options.objective.energy > 0 || plans_count(options, request)) {
    return false;
  }
  if (options.store == nullptr) return true;
  // To rank a GPU's candidates every engine of cuDNN's is asked: tens of milliseconds, which only a memory is worth.
  if (request.kind() == DeviceKind::cpu) return false;
  for (const CacheState caches : {CacheState::network, options.caches}) {
    CONVOY_TRY(const bool remembered, is_remembered(*options.store, problem, request, caches, engines));
    if (remembered) return false;
  }
  return true;
}

Result<Selection> choose_by_heuristic(const ConvProblem& problem, std::span<const Candidate> ranked,
                                      std::span<const Engine* const> engines, const SelectionOptions& options,
                                      const PlanRequest& request) {
  Selection selection;
  if (options.objective.energy > 0) {
    return Error{ErrorCode::unsupported,
                 fmt::format("objective '{}': energy is known by measuring only", print(options.objective))};
  }
  if (!plans_count(options, request)) {
    selection.candidate = ranked.front();
    return selection;
  }
  std::string reasons;
  bool excluded = false;
  std::vector<Measurement> expected;  // as if predictions had been measured
  for (const Candidate& candidate : ranked) {
    CONVOY_TRY(const Engine* engine, runnable_engine(problem, candidate, engines, request));
    const auto seen = plan_to_see(problem, candidate, engines, request);
    if (!seen.ok()) {
      if (seen.error().code != ErrorCode::unsupported) return seen.error();
      reasons += "\n  " + seen.error().message;
      continue;
    }
    if (const auto refusal = filtered(problem, *engine, candidate.knobs, options.filter, request, seen->plan.get())) {
      reasons += fmt::format("\n  {}: {}", print(candidate), refusal->reason);
      excluded = true;
      continue;
    }
    Measurement& measurement = expected.emplace_back();
    measurement.candidate = candidate;
    measurement.median_seconds = engine->predict_seconds(problem, candidate.knobs, request);
    measurement.workspace_bytes = seen->plan->workspace_bytes();
    if (options.objective.workspace == 0) break;  // the rest is slower
  }
  if (expected.empty()) {
    const std::string why = excluded                 ? "passes the filter"
                            : request.target_sms > 0 ? fmt::format("keeps to {} SMs (target_sms)", request.target_sms)
                                                     : "can be planned";
    return Error{ErrorCode::unsupported, fmt::format("no candidate for {} {}:{}", print(problem), why, reasons)};
  }
  const ObjectiveScale scale = scale_of(expected);
  selection.candidate = std::min_element(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
                          return score(a, options.objective, scale) < score(b, options.objective, scale);
                        })->candidate;
  return selection;
}

Result<std::optional<Selection>> choose_by_memory(const ConvProblem& problem, std::span<const Candidate> ranked,
                                                  std::span<const Engine* const> engines,
                                                  const SelectionOptions& options, const PlanRequest& request) {
  const auto choose = [&](CacheState caches, SelectedBy by) -> Result<std::optional<Selection>> {
    CONVOY_TRY(std::vector<Measurement> known,
               recall_for_choice(*options.store, problem, request, caches, ranked, engines));
    const auto may_win = [&](const Measurement& m) {
      const bool lost = caches == CacheState::network && m.state != MeasurementState::complete;
      return !lost && may_be_chosen(problem, m, engines, options.filter, request);
    };
    const Measurement* const winner = best_of(known, options.objective, ranked, request.kind(), may_win);
    if (winner == nullptr) return std::optional<Selection>();
    Selection selection;
    selection.by = by;
    selection.candidate = winner->candidate;
    selection.measurements = std::move(known);
    return std::optional(std::move(selection));
  };
  const bool as_in_network = options.caches == CacheState::cold || options.in_network;
  if (as_in_network && options.objective.workspace == 0 && options.objective.energy == 0) {
    CONVOY_TRY(auto in_network, choose(CacheState::network, SelectedBy::network_hint));
    if (in_network) return in_network;
  }
  CONVOY_TRY(auto stored, choose(options.caches, SelectedBy::stored));
  if (stored || options.caches == CacheState::cold || !as_in_network) return stored;
  return choose(CacheState::cold, SelectedBy::stored);  // ranks engines better than predictions do
}

}  // namespace convoy::selection
