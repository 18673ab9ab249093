// Who can run a problem, who can't and why, and the plan of one candidate.
#include "select/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/selection.h"
#include "core/refines.h"
#include "core/suggestions.h"
#include "select/checked_plan.h"
#include "select/filter.h"
#include "select/names.h"

namespace convoy {
namespace {

// The first knob value that the engine doesn't have for this problem.
std::optional<std::string> knob_fault(const KnobValues& values, const std::vector<Knob>& knobs) {
  for (const KnobValue& value : values) {
    const auto knob = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == value.name; });
    if (knob == knobs.end()) {
      std::vector<std::string> names;
      for (const Knob& k : knobs) names.push_back(k.name);
      return names.empty()
                 ? fmt::format("knob '{}': this engine has no knobs for this problem", value.name)
                 : fmt::format("knob '{}' is unknown; this engine has {}", value.name, fmt::join(names, ", "));
    }
    if (std::find(knob->values.begin(), knob->values.end(), value.value) == knob->values.end()) {
      return fmt::format("knob {}={}: the values for this problem are {}", value.name, value.value,
                         fmt::join(knob->values, ", "));
    }
  }
  return std::nullopt;
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
      answer.knobs = engine->knobs(problem, request);
      answer.default_candidate = {engine->info().name, default_knobs(answer.knobs)};
      answer.predicted_seconds = engine->predict_seconds(problem, answer.default_candidate.knobs, request);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

std::vector<Candidate> rank_by_heuristic(const ConvProblem& problem, std::span<const Engine* const> engines,
                                         const SelectionFilter& filter, const PlanRequest& request) {
  struct Ranked {
    bool oracle;
    double seconds;
    Candidate candidate;
  };
  std::vector<Ranked> ranked;
  const std::vector<EngineAnswer> answers = list_candidates(problem, engines, request);
  for (const EngineAnswer& answer : answers) {
    if (answer.refusal || selection::held_back(answer.engine->info(), answers, filter)) continue;
    const bool oracle = answer.engine->info().oracle;
    const auto passes = [&](const KnobValues& knobs) {
      return !filtered(problem, *answer.engine, knobs, filter, request);
    };
    std::vector<KnobValues> known = {answer.default_candidate.knobs};
    if (passes(known.front())) ranked.push_back({oracle, answer.predicted_seconds, answer.default_candidate});
    for (const KnobValues& suggested : suggestions_of(*answer.engine, problem, request)) {
      KnobValues knobs = answer.default_candidate.knobs;  // what a suggestion leaves out has its default
      for (KnobValue& knob : knobs) knob.value = knob_or(suggested, knob.name, knob.value);
      if (std::find(known.begin(), known.end(), knobs) != known.end()) continue;
      known.push_back(knobs);
      if (!passes(knobs)) continue;
      const double seconds = answer.engine->predict_seconds(problem, knobs, request);
      ranked.push_back({oracle, seconds, {answer.engine->info().name, std::move(knobs)}});
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
  struct Contender {
    const Engine* engine;
    Estimate estimate;
    int steps = 0;  // of refining it
  };
  std::vector<Contender> contenders;
  for (const Engine* engine : engines) {
    if (engine->info().oracle || !admits(engine->info(), problem, request)) continue;
    if (auto estimate = engine->estimate(problem, request)) contenders.push_back({engine, *std::move(estimate)});
  }
  while (!contenders.empty()) {
    const auto best = std::min_element(contenders.begin(), contenders.end(), [](const auto& a, const auto& b) {
      return a.estimate.seconds < b.estimate.seconds;
    });
    // What was looked at closely enough to be near the front is filtered before its provider is asked for good. The
    // first step is for all engines of a provider, few of which come near.
    const bool ripe = best->estimate.certain || best->steps > 1;
    if (ripe && filtered(problem, *best->engine, best->estimate.knobs, filter, request)) {
      contenders.erase(best);
    } else if (!best->estimate.certain) {
      if (auto better = refined(*best->engine, problem, request, best->steps++)) {
        best->estimate = *std::move(better);
      } else {
        contenders.erase(best);
      }
    } else {
      return Prediction{{best->engine->info().name, std::move(best->estimate.knobs)}, best->estimate.seconds};
    }
  }
  return std::nullopt;
}

constexpr std::size_t kMostVariants = 4096;

std::vector<Candidate> selection::knob_product(const Engine& engine, const ConvProblem& problem,
                                               const PlanRequest& request) {
  const std::vector<Knob> knobs = engine.knobs(problem, request);
  std::vector<Candidate> candidates = {{engine.info().name, default_knobs(knobs)}};
  for (const Knob& knob : knobs) {
    // Beyond the bound the default's neighbours only: a provider's knobs may have billions of combinations.
    const std::size_t count = candidates.size() * knob.values.size() <= kMostVariants ? candidates.size() : 1;
    for (std::size_t v = 1; v < knob.values.size(); ++v) {
      for (std::size_t i = 0; i < count; ++i) {
        Candidate candidate = candidates[i];
        for (KnobValue& value : candidate.knobs) {
          if (value.name == knob.name) value.value = knob.values[v];
        }
        candidates.push_back(std::move(candidate));
      }
    }
  }
  return candidates;
}

Error selection::cannot_run(const Engine& engine, const ConvProblem& problem, const Refusal& refusal) {
  return {ErrorCode::unsupported,
          fmt::format("{} can't run {}: {}", engine.info().name, print(problem), refusal.reason)};
}

Result<const Engine*> selection::runnable_engine(const ConvProblem& problem, const Candidate& candidate,
                                                 std::span<const Engine* const> engines, const PlanRequest& request) {
  const auto found = std::find_if(engines.begin(), engines.end(),
                                  [&](const Engine* engine) { return engine->info().name == candidate.engine; });
  if (found == engines.end()) return no_such_engine(candidate.engine, engines);
  if (auto refusal = refuse(**found, problem, request)) {
    return cannot_run(**found, problem, *refusal);
  }
  if (auto fault = knob_fault(candidate.knobs, (*found)->knobs(problem, request))) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: {}", print(candidate), *fault)};
  }
  return *found;
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
  CONVOY_TRY(const Engine* engine, selection::runnable_engine(problem, candidate, engines, request));
  Result<std::unique_ptr<ConvPlan>> plan = engine->plan(problem, candidate.knobs, request);
  if (!plan) return plan.error().within(fmt::format("{} on {}", print(candidate), print(problem)));
  return selection::checked(std::move(*plan), problem, request);
}

}  // namespace convoy
