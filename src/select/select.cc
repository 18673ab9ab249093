#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/spent.h"
#include "convoy/selection.h"
#include "core/empty.h"
#include "select/choose/candidates.h"
#include "select/choose/engine_list.h"
#include "select/choose/filter.h"
#include "select/choose/former_knobs.h"
#include "select/choose/heuristic.h"
#include "select/choose/rules.h"
#include "select/tune/tuner.h"

namespace convoy {
namespace {

// Nothing can run it: every engine with its reason, so that nobody has to ask why.
Error nobody_can(const ConvProblem& problem, std::span<const Engine* const> engines, const SelectionFilter& filter,
                 const PlanRequest& request) {
  std::string message = fmt::format("no engine can run {}", print(problem));
  std::vector<EngineAnswer> answers = list_candidates(problem, engines, request);
  for (EngineAnswer& answer : answers) {
    if (answer.engine->info().device != request.kind()) continue;
    selection::take_admitted(answer, problem, filter, request);
    auto refusal = answer.refusal;
    if (!refusal) refusal = filtered(problem, *answer.engine, answer.default_candidate.knobs, filter, request);
    if (!refusal) refusal = selection::held_back(problem, answer.engine->info(), answers, engines, filter, request);
    message += fmt::format("\n  {}: {}", answer.engine->info().name, refusal ? refusal->reason : "?");
  }
  return {ErrorCode::unsupported, message};
}

// What is to be said of an oracle that was chosen because nothing else can run the problem; empty: none was.
std::string oracle_remark(const Candidate& chosen, std::span<const Engine* const> engines,
                          const SelectionFilter& filter) {
  const bool oracle = std::any_of(engines.begin(), engines.end(), [&](const Engine* each) {
    return each->info().oracle && each->info().name == chosen.engine;
  });
  if (!oracle || selection::engine_list_names(filter.engines, chosen.engine)) return "";
  return fmt::format(
      "nothing else can run it, so {} does, an oracle: made to be right, many times slower than engines are",
      chosen.engine);
}

// A rule's candidate for the problem, where it can run it and the filter lets it.
Result<Candidate> candidate_of(const SelectionRule& rule, const ConvProblem& problem,
                               std::span<const Engine* const> engines, const SelectionFilter& filter,
                               const PlanRequest& request) {
  CONVOY_TRY(Candidate candidate, selection::whole_candidate(problem, rule.candidate, engines, request));
  const auto engine = std::find_if(engines.begin(), engines.end(),
                                   [&](const Engine* each) { return each->info().name == candidate.engine; });
  auto refusal = filtered(problem, **engine, candidate.knobs, filter, request);
  if (!refusal && selection::needs_plan(filter)) {
    CONVOY_TRY(const auto seen, selection::plan_to_see(problem, candidate, engines, request));
    refusal = filtered(problem, **engine, candidate.knobs, filter, request, seen.plan.get());
  }
  if (!refusal) return candidate;
  return Error{ErrorCode::unsupported, fmt::format("{}: {}", print(candidate), refusal->reason)};
}

void log_selection(const ConvProblem& problem, const Selection& selection, std::string_view node_name) {
  for (const std::string& warning : selection.warnings) {
    log(LogLevel::warning, "select", {{"problem", print(problem)}, {"node", node_name}, {"warning", warning}});
  }
  if (!log_enabled(LogLevel::info)) return;
  log(LogLevel::info, "select",
      {{"problem", print(problem)},
       {"node", node_name},
       {"candidate", print(selection.candidate)},
       {"reason", selection.reason()},
       {"partial", selection.partial ? "1" : "0"}});
}

// Those of `first` that may be chosen go to the front, in their order; how many there are.
std::size_t put_first(std::vector<Candidate>& ranked, std::span<const Candidate> first, const ConvProblem& problem,
                      std::span<const Engine* const> engines, const SelectionFilter& filter,
                      const PlanRequest& request) {
  std::vector<Candidate> front;
  for (const Candidate& candidate : first) {
    const auto engine = selection::runnable_engine(problem, candidate, engines, request);
    if (!engine.ok() || filtered(problem, **engine, candidate.knobs, filter, request)) continue;
    std::erase(ranked, candidate);
    front.push_back(candidate);
  }
  ranked.insert(ranked.begin(), front.begin(), front.end());
  return front.size();
}

// Whether what was predicted can be planned. Learnt knobs are looked up. A GPU's are the provider's own answer, and
// asking for all values that they may have would cost more than choosing.
Result<void> can_run(const ConvProblem& problem, const Candidate& candidate, std::span<const Engine* const> engines,
                     const PlanRequest& request) {
  if (request.kind() == DeviceKind::cpu) {
    CONVOY_CHECK(selection::runnable_engine(problem, candidate, engines, request));
    return {};
  }
  const auto engine = std::find_if(engines.begin(), engines.end(),
                                   [&](const Engine* each) { return each->info().name == candidate.engine; });
  if (const auto refusal = refuse(**engine, problem, request))
    return selection::cannot_run(**engine, problem, *refusal);
  return {};
}

Result<Selection> choose(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request, std::string_view node_name,
                         std::span<const Candidate> first, bool to_the_end, const SelectionProgress& progress) {
  CONVOY_CHECK(validate(problem));
  std::vector<std::string> warnings;
  CONVOY_TRY(const SelectionRule* const rule, selection::find_rule(options.rules, problem, node_name));
  if (rule != nullptr && !is_empty(problem)) {
    auto runs = candidate_of(*rule, problem, engines, options.filter, request);
    if (runs.ok()) {
      Selection selection;
      if (selection::has_former_knobs(rule->candidate)) {
        selection.warnings.push_back(
            fmt::format("rule '{}': {} is written {} now", rule->pattern, print(rule->candidate), print(*runs)));
      }
      selection.candidate = *std::move(runs);
      selection.by = SelectedBy::rule;
      selection.rule = rule->pattern;
      return selection;
    }
    const Error error = runs.error().within(fmt::format("rule '{}'", rule->pattern));
    if (options.strict_rules) return error;
    warnings.push_back(error.message + "; the rule was passed over");
  }

  Selection selection;
  std::optional<Error> overrated;  // what was predicted from the problem alone, and can't run after all
  CONVOY_TRY(const bool predicted, selection::decided_by_prediction(problem, engines, options, request));
  if (predicted) {
    if (const auto best = predict_best(problem, engines, options.filter, request)) {
      const auto runs = can_run(problem, best->candidate, engines, request);
      if (runs.ok()) {
        selection.candidate = best->candidate;
        selection.warnings = std::move(warnings);
        return selection;
      }
      overrated = runs.error();
    }
  }
  std::vector<Candidate> ranked;
  {
    const Spent spent("asking engines");
    ranked = rank_by_heuristic(problem, engines, options.filter, request);
  }
  if (ranked.empty()) return nobody_can(problem, engines, options.filter, request);
  if (overrated) {
    warnings.push_back(fmt::format("{}; {} takes its place", overrated->message, print(ranked.front())));
  }
  if (options.mode == SelectionMode::measured) {
    const std::size_t wanted = put_first(ranked, first, problem, engines, options.filter, request);
    CONVOY_TRY(selection, selection::choose_by_measuring(problem, ranked, wanted, engines, options, request, to_the_end,
                                                         progress));
  } else {
    std::optional<Selection> stored;
    if (options.store != nullptr) {
      CONVOY_TRY(stored, selection::choose_by_memory(problem, ranked, engines, options, request));
    }
    if (stored) {
      selection = *std::move(stored);
    } else {
      CONVOY_TRY(selection, selection::choose_by_heuristic(problem, ranked, engines, options, request));
    }
  }
  if (std::string remark = oracle_remark(selection.candidate, engines, options.filter); !remark.empty()) {
    warnings.push_back(std::move(remark));
  }
  selection.warnings.insert(selection.warnings.begin(), warnings.begin(), warnings.end());
  return selection;
}

Result<Selection> choose_and_log(const ConvProblem& problem, std::span<const Engine* const> engines,
                                 const SelectionOptions& options, const PlanRequest& request,
                                 std::string_view node_name, std::span<const Candidate> first, bool to_the_end,
                                 const SelectionProgress& progress) {
  auto selection = choose(problem, engines, options, request, node_name, first, to_the_end, progress);
  if (log_enabled(LogLevel::warning)) {
    if (selection.ok()) {
      log_selection(problem, *selection, node_name);
    } else {
      log(LogLevel::error, "select", {{"problem", print(problem)}, {"error", selection.error().message}});
    }
  }
  return selection;
}

}  // namespace

std::string_view name_of(SelectedBy by) {
  switch (by) {
    case SelectedBy::heuristic:
      return "heuristic";
    case SelectedBy::rule:
      return "rule";
    case SelectedBy::measured:
      return "measured";
    case SelectedBy::stored:
      return "stored";
    case SelectedBy::network_hint:
      return "network hint";
    case SelectedBy::plan:
      return "plan";
    case SelectedBy::given:
      break;
  }
  return "given";
}

std::string Selection::reason() const {
  return by == SelectedBy::rule ? fmt::format("rule '{}'", rule) : std::string(name_of(by));
}

Result<Selection> select(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request, std::string_view node_name,
                         const SelectionProgress& progress) {
  return choose_and_log(problem, engines, options, request, node_name, {}, false, progress);
}

Result<Selection> selection::select_with_first(const ConvProblem& problem, std::span<const Engine* const> engines,
                                               const SelectionOptions& options, const PlanRequest& request,
                                               std::span<const Candidate> first, const SelectionProgress& progress) {
  return choose_and_log(problem, engines, options, request, {}, first, false, progress);
}

Result<Selection> selection::select_to_the_end(const ConvProblem& problem, std::span<const Engine* const> engines,
                                               const SelectionOptions& options, const PlanRequest& request,
                                               std::string_view node_name, const SelectionProgress& progress) {
  return choose_and_log(problem, engines, options, request, node_name, {}, true, progress);
}

}  // namespace convoy
