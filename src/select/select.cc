#include <fmt/format.h>

#include <algorithm>

#include "convoy/selection.h"
#include "select/candidates.h"
#include "select/glob.h"
#include "select/measured.h"
#include "select/remembered.h"
#include "select/rules.h"

namespace convoy {
namespace {

// Nothing can run it: every engine with its reason, so that nobody has to ask why.
Error nobody_can(const ConvProblem& problem, std::span<const Engine* const> engines, const SelectionFilter& filter,
                 const PlanRequest& request) {
  std::string message = fmt::format("no engine can run {}", print(problem));
  for (const EngineAnswer& answer : list_candidates(problem, engines, request)) {
    const std::string reason = answer.refusal ? answer.refusal->reason
                               : !selection::glob_list_matches(filter.engines, answer.engine->info().name)
                                   ? fmt::format("excluded by the engine filter '{}'", filter.engines)
                                   : "excluded by the deterministic-only filter";
    message += fmt::format("\n  {}: {}", answer.engine->info().name, reason);
  }
  return {ErrorCode::unsupported, message};
}

// The best predicted candidate whose workspace is within the limit. Only a plan knows its workspace, so plans are made
// when there is a limit, and only then.
Result<Selection> by_heuristic(const ConvProblem& problem, const std::vector<Candidate>& ranked,
                               std::span<const Engine* const> engines, const SelectionFilter& filter,
                               const PlanRequest& request) {
  Selection selection;
  selection.reason = "heuristic";
  if (!filter.workspace_limit) {
    selection.candidate = ranked.front();
    return selection;
  }
  std::string needs;
  for (const Candidate& candidate : ranked) {
    CONVOY_TRY(auto plan, make_plan(problem, candidate, engines, request));
    if (plan->workspace_bytes() <= *filter.workspace_limit) {
      selection.candidate = candidate;
      return selection;
    }
    needs += fmt::format("\n  {} needs {} bytes", print(candidate), plan->workspace_bytes());
  }
  return Error{ErrorCode::unsupported, fmt::format("no candidate for {} fits the workspace limit of {} bytes:{}",
                                                   print(problem), *filter.workspace_limit, needs)};
}

Result<Selection> by_measurement(const ConvProblem& problem, const std::vector<Candidate>& ranked,
                                 std::span<const Engine* const> engines, const SelectionOptions& options,
                                 const PlanRequest& request, const SelectionProgress& progress) {
  std::vector<Candidate> contestants;
  // Oracles are ranked last: where the first is one, nothing else can run it.
  CONVOY_TRY(const Engine* first, selection::runnable_engine(problem, ranked.front(), engines, request));
  for (const Candidate& candidate : ranked) {
    CONVOY_TRY(const Engine* engine, selection::runnable_engine(problem, candidate, engines, request));
    if (engine->info().oracle && !first->info().oracle && options.filter.engines == "*") continue;
    if (options.all_knobs) {
      for (Candidate& variant : selection::knob_product(*engine, problem, request.cpu))
        contestants.push_back(std::move(variant));
    } else {
      contestants.push_back(candidate);
    }
  }
  const MeasurementKey key = measurement_key(problem, request, options.caches);
  const std::size_t wanted = contestants.size();
  std::vector<Measurement> measurements;
  if (options.store != nullptr) {
    CONVOY_TRY(selection::Remembered known, selection::recall(*options.store, key, contestants, engines));
    measurements = std::move(known.settled);
    contestants = std::move(known.open);
  }
  std::optional<Error> not_stored;
  const auto record = [&](const Measurement& measurement) {
    if (options.store == nullptr) return;
    if (auto stored = options.store->store(key, measurement); !stored.ok()) not_stored = stored.error();
  };
  if (!contestants.empty()) {
    CONVOY_TRY(std::vector<Measurement> fresh,
               selection::measure(problem, contestants, engines, request, options, record, progress));
    std::move(fresh.begin(), fresh.end(), std::back_inserter(measurements));
  }
  selection::sort_measurements(measurements);

  Selection selection;
  selection.reason = contestants.empty() ? "stored" : "measured";
  for (const Measurement& measurement : measurements) {
    if (measurement.failure) {
      selection.warnings.push_back(fmt::format("{}: {}", print(measurement.candidate), measurement.failure->message));
    }
  }
  if (not_stored) selection.warnings.push_back("not stored: " + not_stored->message);
  if (measurements.size() < wanted) {
    selection.warnings.push_back(fmt::format("the budget of {} s ended after {} of {} candidates",
                                             options.budget_seconds, measurements.size(), wanted));
  }
  const auto winner = std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& m) {
    return !m.failure && (!options.filter.workspace_limit || m.workspace_bytes <= *options.filter.workspace_limit);
  });
  if (winner == measurements.end()) {
    const bool limited = options.filter.workspace_limit.has_value();
    return Error{limited ? ErrorCode::unsupported : ErrorCode::wrong_result,
                 fmt::format("no candidate for {} {}:\n  {}", print(problem),
                             limited ? "is right and fits the workspace limit" : "gave a right result",
                             fmt::join(selection.warnings, "\n  "))};
  }
  selection.candidate = winner->candidate;
  selection.measurements = std::move(measurements);
  return selection;
}

// The fastest that was measured before, if the store can tell.
Result<std::optional<Selection>> by_memory(const ConvProblem& problem, const std::vector<Candidate>& ranked,
                                           std::span<const Engine* const> engines, const SelectionOptions& options,
                                           const PlanRequest& request) {
  CONVOY_TRY(
      std::vector<Measurement> known,
      selection::recall_for_choice(*options.store, measurement_key(problem, request, options.caches), ranked, engines));
  const auto winner = std::find_if(known.begin(), known.end(), [&](const Measurement& m) {
    return !m.failure && (!options.filter.workspace_limit || m.workspace_bytes <= *options.filter.workspace_limit) &&
           selection::runnable_engine(problem, m.candidate, engines, request).ok();
  });
  if (winner == known.end()) return std::optional<Selection>();
  Selection selection;
  selection.reason = "stored";
  selection.candidate = winner->candidate;
  selection.measurements = std::move(known);
  return std::optional(std::move(selection));
}

}  // namespace

Result<Selection> select(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request, std::string_view node_name,
                         const SelectionProgress& progress) {
  CONVOY_CHECK(validate(problem));
  std::vector<std::string> warnings;
  if (!options.rules.empty()) {
    if (const SelectionRule* rule = selection::find_rule(options.rules, print(problem), node_name)) {
      auto engine = selection::runnable_engine(problem, rule->candidate, engines, request);
      if (engine) {
        Selection selection;
        selection.candidate = rule->candidate;
        selection.reason = fmt::format("rule '{}'", rule->pattern);
        return selection;
      }
      const Error error = engine.error().within(fmt::format("rule '{}'", rule->pattern));
      if (options.strict_rules) return error;
      warnings.push_back(error.message + "; the rule was passed over");
    }
  }

  const std::vector<Candidate> ranked = rank_by_heuristic(problem, engines, options.filter, request);
  if (ranked.empty()) return nobody_can(problem, engines, options.filter, request);
  const bool measured = options.mode == SelectionMode::measured;
  if (!measured && options.store != nullptr) {
    CONVOY_TRY(std::optional<Selection> stored, by_memory(problem, ranked, engines, options, request));
    if (stored) {
      stored->warnings = std::move(warnings);
      return *std::move(stored);
    }
  }
  CONVOY_TRY(Selection selection, measured ? by_measurement(problem, ranked, engines, options, request, progress)
                                           : by_heuristic(problem, ranked, engines, options.filter, request));
  selection.warnings.insert(selection.warnings.begin(), warnings.begin(), warnings.end());
  return selection;
}

}  // namespace convoy
