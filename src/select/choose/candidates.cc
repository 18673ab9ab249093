// Who can run a problem, who can't and why, and the plan of one candidate.
#include "select/choose/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "convoy/selection.h"
#include "core/configurations.h"
#include "core/empty.h"
#include "core/refines.h"
#include "core/suggestions.h"
#include "select/choose/checked_plan.h"
#include "select/choose/engine_list.h"
#include "select/choose/filter.h"
#include "select/choose/former_knobs.h"
#include "select/choose/names.h"

namespace convoy {
namespace {

// Whether an engine that copies tensors for another may get around a refusal.
bool says_how_it_lies(const Refusal& refusal) {
  return refusal.code == RefusalCode::layout || refusal.code == RefusalCode::data_type;
}

// Whether they have `engine` do the work.
bool runs(const Configurations& configurations, std::string_view engine) {
  const auto is_it = [&](const KnobSetting& value) { return value.word() != nullptr && *value.word() == engine; };
  return std::ranges::any_of(configurations.knobs, [&](const Knob& knob) {
    return knob.name == "engine" && std::ranges::any_of(knob.values, is_it);
  });
}

void name_way_around(Refusal& refusal, std::string_view around, std::string_view engine) {
  refusal.reason += fmt::format("; {}{{engine={}}} runs it on copies", around, engine);
}

// The engine, where it takes the problem.
Result<const Engine*> find_engine(const ConvProblem& problem, const Candidate& candidate,
                                  std::span<const Engine* const> engines, const PlanRequest& request) {
  const auto found = std::find_if(engines.begin(), engines.end(),
                                  [&](const Engine* engine) { return engine->info().name == candidate.engine; });
  if (found == engines.end()) return selection::no_such_engine(candidate.engine, engines);
  if (auto refusal = refuse(**found, problem, request)) {
    if (says_how_it_lies(*refusal)) {
      for (const Engine* engine : engines) {
        if (!refuse(*engine, problem, request) && runs(engine->configurations(problem, request), candidate.engine)) {
          name_way_around(*refusal, engine->info().name, candidate.engine);
        }
      }
    }
    return selection::cannot_run(**found, problem, *refusal);
  }
  return *found;
}

// The best predicted of an engine's candidates that the filter lets pass, where its `engines` name candidates.
std::optional<Estimate> best_admitted(const Engine& engine, const Configurations& configurations,
                                      const ConvProblem& problem, const SelectionFilter& filter,
                                      const PlanRequest& request) {
  std::optional<Estimate> best;
  for (KnobValues& knobs : all_of(configurations)) {
    if (!selection::engine_list_matches(filter.engines, engine.info().name, knobs)) continue;
    const double seconds = engine.predict_seconds(problem, knobs, request);
    if ((best && best->seconds <= seconds) || filtered(problem, engine, knobs, filter, request)) continue;
    best = Estimate{std::move(knobs), seconds};
  }
  return best;
}

bool leaves_out_only(const SelectionFilter& filter, const Engine& engine, const KnobValues& knobs) {
  const std::string& name = engine.info().name;
  return !selection::engine_list_matches(filter.engines, name, knobs) &&
         selection::engine_list_may_match(filter.engines, name);
}

// At once, from the problem alone; oracles make none.
std::optional<Estimate> estimate_of(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
  if (engine.info().oracle || !admits(engine.info(), problem, request)) return std::nullopt;
  if (is_empty(problem) && !takes_empty(engine)) return std::nullopt;
  return engine.estimate(problem, request);
}

// Whether these are the knobs that an engine estimates itself with. It is asked no more than an estimate needs.
bool are_estimated(const KnobValues& knobs, const Engine& engine, const ConvProblem& problem,
                   const PlanRequest& request) {
  if (dynamic_cast<const RefinesEstimates*>(&engine) == nullptr) return false;
  for (int steps = 0;; ++steps) {
    const auto estimate = refined(engine, problem, request, steps);
    if (!estimate || estimate->certain) return estimate && estimate->knobs == knobs;
  }
}

}  // namespace

std::vector<EngineAnswer> list_candidates(const ConvProblem& problem, std::span<const Engine* const> engines,
                                          const PlanRequest& request) {
  std::vector<EngineAnswer> answers;
  for (const Engine* engine : engines) {
    EngineAnswer answer;
    answer.engine = engine;
    answer.refusal = refuse(*engine, problem, request);
    if (!answer.refusal) {
      answer.configurations = engine->configurations(problem, request);
      answer.default_candidate = {engine->info().name, default_knobs(answer.configurations)};
      answer.predicted_seconds = engine->predict_seconds(problem, answer.default_candidate.knobs, request);
    }
    answers.push_back(std::move(answer));
  }
  for (const EngineAnswer& able : answers) {
    if (able.refusal) continue;
    for (EngineAnswer& answer : answers) {
      const std::string& name = answer.engine->info().name;
      if (!answer.refusal || !says_how_it_lies(*answer.refusal) || !runs(able.configurations, name)) continue;
      name_way_around(*answer.refusal, able.engine->info().name, name);
    }
  }
  return answers;
}

void selection::take_admitted(EngineAnswer& answer, const ConvProblem& problem, const SelectionFilter& filter,
                              const PlanRequest& request) {
  if (answer.refusal || !leaves_out_only(filter, *answer.engine, answer.default_candidate.knobs)) return;
  auto best = best_admitted(*answer.engine, answer.configurations, problem, filter, request);
  if (!best) return;
  answer.default_candidate.knobs = std::move(best->knobs);
  answer.predicted_seconds = best->seconds;
}

std::vector<Candidate> rank_by_heuristic(const ConvProblem& problem, std::span<const Engine* const> engines,
                                         const SelectionFilter& filter, const PlanRequest& request) {
  struct Ranked {
    bool oracle;
    double seconds;
    Candidate candidate;
  };
  std::vector<Ranked> ranked;
  std::vector<EngineAnswer> answers = list_candidates(problem, engines, request);
  for (EngineAnswer& answer : answers) {
    if (answer.refusal || selection::held_back(problem, answer.engine->info(), answers, engines, filter, request))
      continue;
    selection::take_admitted(answer, problem, filter, request);
    const bool oracle = answer.engine->info().oracle;
    const auto passes = [&](const KnobValues& knobs) {
      return !filtered(problem, *answer.engine, knobs, filter, request);
    };
    std::vector<KnobValues> known = {answer.default_candidate.knobs};
    if (passes(known.front())) ranked.push_back({oracle, answer.predicted_seconds, answer.default_candidate});
    for (const KnobValues& suggested : suggestions_of(*answer.engine, problem, request)) {
      auto knobs = completed(suggested, answer.configurations);
      if (!knobs.ok() || std::find(known.begin(), known.end(), *knobs) != known.end()) continue;
      known.push_back(*knobs);
      if (!passes(*knobs)) continue;
      const double seconds = answer.engine->predict_seconds(problem, *knobs, request);
      ranked.push_back({oracle, seconds, {answer.engine->info().name, *std::move(knobs)}});
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.oracle != b.oracle ? !a.oracle : a.seconds < b.seconds;
  });
  std::vector<Candidate> candidates;
  for (Ranked& entry : ranked) candidates.push_back(std::move(entry.candidate));
  return candidates;
}

std::optional<Prediction> predict_best(const ConvProblem& problem, std::span<const Engine* const> engines,
                                       const SelectionFilter& filter, const PlanRequest& request) {
  struct Estimated {
    const Engine* engine;
    Estimate estimate;
    int steps = 0;  // of refining it
  };
  std::vector<Estimated> estimated;
  for (const Engine* engine : engines) {
    if (auto estimate = estimate_of(*engine, problem, request)) estimated.push_back({engine, *std::move(estimate)});
  }
  while (!estimated.empty()) {
    const auto best = std::min_element(estimated.begin(), estimated.end(), [](const auto& a, const auto& b) {
      return a.estimate.seconds < b.estimate.seconds;
    });
    // What was looked at closely enough to be near the front is filtered before its provider is asked for good. The
    // first step is for all engines of a provider, few of which come near.
    const bool ripe = best->estimate.certain || best->steps > 1;
    if (ripe && filtered(problem, *best->engine, best->estimate.knobs, filter, request)) {
      std::optional<Estimate> other;
      if (leaves_out_only(filter, *best->engine, best->estimate.knobs) && !refuse(*best->engine, problem, request)) {
        other = best_admitted(*best->engine, best->engine->configurations(problem, request), problem, filter, request);
      }
      if (other) {
        best->estimate = *std::move(other);
      } else {
        estimated.erase(best);
      }
    } else if (!best->estimate.certain) {
      if (auto better = refined(*best->engine, problem, request, best->steps++)) {
        best->estimate = *std::move(better);
      } else {
        estimated.erase(best);
      }
    } else {
      return Prediction{{best->engine->info().name, std::move(best->estimate.knobs)}, best->estimate.seconds};
    }
  }
  return std::nullopt;
}

std::optional<double> selection::predict_at_least(const ConvProblem& problem, std::span<const Engine* const> engines,
                                                  const SelectionFilter& filter, const PlanRequest& request) {
  if (filter.engines.find('{') != std::string::npos) return std::nullopt;
  double least = std::numeric_limits<double>::infinity();
  for (const Engine* engine : engines) {
    if (const auto estimate = estimate_of(*engine, problem, request)) least = std::min(least, estimate->seconds);
  }
  return least;
}

std::vector<Candidate> selection::all_configurations(const Engine& engine, const ConvProblem& problem,
                                                     const PlanRequest& request) {
  std::vector<Candidate> candidates;
  for (KnobValues& each : all_of(engine.configurations(problem, request))) {
    candidates.push_back({engine.info().name, std::move(each)});
  }
  return candidates;
}

Error selection::cannot_run(const Engine& engine, const ConvProblem& problem, const Refusal& refusal) {
  return {ErrorCode::unsupported,
          fmt::format("{} can't run {}: {}", engine.info().name, print(problem), refusal.reason)};
}

Result<const Engine*> selection::runnable_engine(const ConvProblem& problem, const Candidate& candidate,
                                                 std::span<const Engine* const> engines, const PlanRequest& request) {
  CONVOY_TRY(const Engine* engine, find_engine(problem, candidate, engines, request));
  if (candidate.knobs.empty() || are_estimated(candidate.knobs, *engine, problem, request)) return engine;
  const auto whole = completed(candidate.knobs, engine->configurations(problem, request));
  if (!whole.ok()) return whole.error().within(print(candidate));
  return engine;
}

Result<Candidate> selection::whole_candidate(const ConvProblem& problem, const Candidate& candidate,
                                             std::span<const Engine* const> engines, const PlanRequest& request) {
  Candidate whole = with_named_knobs(candidate, &problem).value_or(candidate);
  CONVOY_TRY(const Engine* engine, find_engine(problem, whole, engines, request));
  if (whole.knobs.empty() || are_estimated(whole.knobs, *engine, problem, request)) return whole;
  auto knobs = completed(whole.knobs, engine->configurations(problem, request));
  if (!knobs.ok()) return knobs.error().within(print(candidate));
  whole.knobs = *std::move(knobs);
  return whole;
}

Result<selection::PlanToSee> selection::plan_to_see(const ConvProblem& problem, const Candidate& candidate,
                                                    std::span<const Engine* const> engines,
                                                    const PlanRequest& request) {
  PlanToSee seen;
  PlanRequest own = request;
  if (request.constant_weights != nullptr) {
    CONVOY_TRY(seen.weights, HostTensor::zeros(problem.w));
    own.constant_weights = seen.weights.data.get();
  }
  CONVOY_TRY(seen.plan, make_plan(problem, candidate, engines, own));
  return seen;
}

std::string selection::failure_text(const Measurement& measurement) {
  const std::string name = print(measurement.candidate);
  const std::string& message = measurement.failure->message;
  return message.starts_with(name) ? message : name + ": " + message;
}

Result<std::unique_ptr<ConvPlan>> make_plan(const ConvProblem& problem, const Candidate& candidate,
                                            std::span<const Engine* const> engines, const PlanRequest& request) {
  CONVOY_CHECK(validate(problem));
  CONVOY_TRY(const Candidate whole, selection::whole_candidate(problem, candidate, engines, request));
  const auto engine = std::find_if(engines.begin(), engines.end(),
                                   [&](const Engine* each) { return each->info().name == whole.engine; });
  Result<std::unique_ptr<ConvPlan>> plan = (*engine)->plan(problem, whole.knobs, request);
  if (!plan) return plan.error().within(fmt::format("{} on {}", print(candidate), print(problem)));
  return selection::checked(std::move(*plan), problem, request);
}

}  // namespace convoy
