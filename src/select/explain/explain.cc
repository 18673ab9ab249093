#include "select/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/stages.h"
#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/evidence.h"

namespace convoy::selection {
namespace {

// Three digits and a unit, as people read times.
std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string ratio_text(const char* how, double seconds, double chosen) {
  return fmt::format("{} to take {:.2f} times as long ({} against {})", how, seconds / chosen, time_text(seconds),
                     time_text(chosen));
}

bool faster(const Measurement& a, const Measurement& b) {
  if (a.failure.has_value() != b.failure.has_value()) return !a.failure;
  return a.median_seconds < b.median_seconds;
}

// Everything measured for the problem, now or before.
std::vector<Measurement> known_measurements(const ConvProblem& problem, std::span<const Engine* const> engines,
                                            const SelectionOptions& options, const PlanRequest& request,
                                            const std::optional<Selection>& chosen) {
  std::vector<Measurement> known;
  if (chosen) known = chosen->measurements;
  if (options.store == nullptr || !known.empty()) return known;
  auto stored = options.store->find(measurement_key(problem, request, options.caches));
  if (!stored.ok()) return known;  // select has said so
  for (Measurement& measurement : *stored) {
    if (is_current(measurement, engines)) known.push_back(std::move(measurement));
  }
  return known;
}

// That of what was chosen; of another engine the fastest of its measurements that may be chosen, or where none may the
// fastest.
std::optional<Measurement> known_of(const Engine& engine, std::span<const Measurement> known,
                                    const std::optional<Selection>& chosen, const ConvProblem& problem,
                                    std::span<const Engine* const> engines, const SelectionFilter& filter,
                                    const PlanRequest& request) {
  if (chosen && chosen->candidate.engine == engine.info().name) {
    const auto own = std::ranges::find(known, chosen->candidate, &Measurement::candidate);
    return own != known.end() ? std::optional(*own) : std::nullopt;
  }
  const Measurement* best = nullptr;
  bool best_may = false;
  for (const Measurement& measurement : known) {
    if (measurement.candidate.engine != engine.info().name) continue;
    const bool may = may_be_chosen(problem, measurement, engines, filter, request);
    if (best != nullptr && (may != best_may ? best_may : !faster(measurement, *best))) continue;
    best = &measurement;
    best_may = may;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

EngineVerdict verdict_of(const ConvProblem& problem, const EngineAnswer& answer, std::span<const EngineAnswer> answers,
                         std::span<const Engine* const> engines, const SelectionFilter& filter,
                         const PlanRequest& request, const std::vector<Measurement>& known,
                         const std::optional<Selection>& chosen) {
  EngineVerdict verdict;
  verdict.answer = answer;
  const Engine& engine = *answer.engine;
  verdict.notes = engine.info().notes;
  if (answer.refusal) return verdict;
  take_admitted(verdict.answer, problem, filter, request);
  const Candidate& candidate = verdict.answer.default_candidate;
  const KnobValues& knobs = candidate.knobs;
  verdict.notes = engine.notes(problem, knobs, request);
  verdict.measured = known_of(engine, known, chosen, problem, engines, filter, request);
  const auto plan = make_plan(problem, candidate, engines, request);
  verdict.excluded = filtered(problem, engine, knobs, filter, request, plan.ok() ? plan->get() : nullptr);
  if (!verdict.excluded) verdict.excluded = held_back(problem, engine.info(), answers, engines, filter, request);
  if (!plan.ok()) {
    verdict.no_plan = plan.error();
    return verdict;
  }
  verdict.workspace_bytes = (*plan)->workspace_bytes();
  verdict.stages = stages_of(**plan);
  for (const std::string& note : (*plan)->notes()) {
    if (std::find(verdict.notes.begin(), verdict.notes.end(), note) == verdict.notes.end()) {
      verdict.notes.push_back(note);
    }
  }
  return verdict;
}

bool may_win(const EngineVerdict& verdict) {
  return !verdict.answer.refusal && !verdict.excluded && !verdict.no_plan &&
         !(verdict.measured && verdict.measured->failure);
}

// Compares by measurement where both were measured, right, and times say something, else by prediction.
class Comparer {
 public:
  Comparer(const EngineVerdict& chosen, SelectedBy by, DeviceKind device) : chosen_(chosen), by_(by), device_(device) {}

  double ratio(const EngineVerdict& other) const {
    return measured(other) ? other.measured->median_seconds / chosen_.measured->median_seconds
                           : other.answer.predicted_seconds / chosen_.answer.predicted_seconds;
  }
  std::string text(const EngineVerdict& other) const {
    if (!measured(other)) {
      return ratio_text("predicted", other.answer.predicted_seconds, chosen_.answer.predicted_seconds);
    }
    std::string text = ratio_text("measured", other.measured->median_seconds, chosen_.measured->median_seconds);
    const double spread = std::max(other.measured->spread, chosen_.measured->spread);
    if (by_ == SelectedBy::network_hint) text += ", in a network";
    if (std::abs(ratio(other) - 1) < spread) {
      text += fmt::format(", within the spread of {:.0f}%", spread * 100);
    } else if (ratio(other) < 1 && may_win(other)) {
      text += ", which is not beyond doubt";
    }
    return text;
  }

 private:
  bool measured(const EngineVerdict& other) const { return is_known(chosen_) && is_known(other); }
  bool is_known(const EngineVerdict& verdict) const {
    const auto& m = verdict.measured;
    return m && !m->failure && !may_be_disturbed(*m, device_);
  }
  const EngineVerdict& chosen_;
  const SelectedBy by_;
  const DeviceKind device_;
};

Candidate candidate_of(const EngineVerdict& verdict) {
  const bool measured = verdict.measured && !verdict.measured->failure;
  return measured ? verdict.measured->candidate : verdict.answer.default_candidate;
}

std::string decision(const Explanation& explanation) {
  const Selection& chosen = *explanation.chosen;
  const auto candidates = std::count_if(explanation.engines.begin(), explanation.engines.end(), may_win);
  switch (chosen.by) {
    case SelectedBy::rule:
      return chosen.reason() + ": nothing else was considered";
    case SelectedBy::measured:
      return fmt::format("measurement, of {} candidates", chosen.measurements.size());
    case SelectedBy::stored: {
      const auto fastest = std::ranges::find_if(chosen.measurements, [](const Measurement& m) { return !m.failure; });
      if (fastest == chosen.measurements.end() || fastest->candidate == chosen.candidate) {
        return "a measurement made before: the best of those stored";
      }
      return fmt::format("the heuristic: of what was measured before, {} is not faster beyond doubt",
                         print(fastest->candidate));
    }
    case SelectedBy::network_hint:
      return "a measurement made before in a network, which need not be this one: the best of those timed there";
    case SelectedBy::heuristic:
    case SelectedBy::plan:
    case SelectedBy::given:
      break;
  }
  if (candidates == 1) {
    const bool limited =
        std::any_of(explanation.engines.begin(), explanation.engines.end(),
                    [](const EngineVerdict& v) { return v.excluded && !v.answer.engine->info().oracle; });
    return limited ? "the filter: nothing else that can passes it" : "nothing else can";
  }
  return fmt::format("the heuristic, among {} candidates", candidates);
}

void compare(Explanation& explanation, DeviceKind device) {
  const auto winner = std::find_if(explanation.engines.begin(), explanation.engines.end(), [&](const EngineVerdict& v) {
    return v.answer.engine->info().name == explanation.chosen->candidate.engine;
  });
  if (winner == explanation.engines.end()) return;
  const Comparer comparer(*winner, explanation.chosen->by, device);
  const EngineVerdict* second = nullptr;
  for (const EngineVerdict& verdict : explanation.engines) {
    if (&verdict == &*winner || verdict.answer.refusal) continue;
    const double ratio = comparer.ratio(verdict);
    if (may_win(verdict)) {
      if (second == nullptr || ratio < comparer.ratio(*second)) second = &verdict;
    } else if (ratio < 1) {
      const std::string why = verdict.excluded  ? verdict.excluded->reason
                              : verdict.no_plan ? verdict.no_plan->message
                                                : verdict.measured->failure->message;
      explanation.passed_over.push_back(
          fmt::format("{}, {}: {}", print(candidate_of(verdict)), comparer.text(verdict), why));
    }
  }
  if (second == nullptr) return;
  explanation.runner_up = candidate_of(*second);
  explanation.why_not_runner_up = comparer.text(*second);
}

}  // namespace

Explanation explain(const ConvProblem& problem, std::span<const Engine* const> engines, const SelectionOptions& options,
                    const PlanRequest& request, std::string_view node_name) {
  Explanation explanation;
  auto chosen = select(problem, engines, options, request, node_name);
  if (chosen.ok()) {
    explanation.chosen = std::move(*chosen);
  } else {
    explanation.nothing = chosen.error();
  }
  const auto known = known_measurements(problem, engines, options, request, explanation.chosen);
  const std::vector<EngineAnswer> answers = list_candidates(problem, engines, request);
  for (const EngineAnswer& answer : answers) {
    explanation.engines.push_back(
        verdict_of(problem, answer, answers, engines, options.filter, request, known, explanation.chosen));
  }
  explanation.advice = advice_for_3d(problem);
  if (!explanation.chosen) return explanation;
  const auto plan = make_plan(problem, explanation.chosen->candidate, engines, request);
  if (plan.ok()) {
    explanation.stages = stages_of(**plan);
    explanation.description = (*plan)->description();
  }
  explanation.decided_by = decision(explanation);
  compare(explanation, request.kind());
  return explanation;
}

}  // namespace convoy::selection
