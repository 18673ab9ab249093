#include "select/choose/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/empty.h"
#include "select/choose/candidates.h"
#include "select/choose/engine_list.h"
#include "select/choose/glob.h"
#include "select/choose/notes.h"

namespace convoy {
namespace selection {
namespace {

Refusal no(std::string reason) { return {RefusalCode::filtered, std::move(reason)}; }

bool is_own_oracle(const EngineInfo& engine) { return engine.oracle && engine.provider.empty(); }

// A way of giving up precision: the least math mode that allows it, and the filter's switch.
struct Loss {
  std::string_view note;
  MathMode needs;
  bool SelectionFilter::*allowed;
  std::string_view filter_name;
  std::string_view what;
};
constexpr std::array kLosses = {
    Loss{note::tf32, MathMode::tf32, &SelectionFilter::tf32, "tf32", "rounds its inputs to tf32"},
    Loss{note::reduced_precision_reduction, MathMode::reduced, &SelectionFilter::reduced_accumulation,
         "reduced_accumulation", "accumulates in less than the compute type"},
    Loss{note::down_convert_inputs, MathMode::reduced, &SelectionFilter::down_convert_inputs, "down_convert_inputs",
         "rounds its inputs to 16 bits"},
};

std::optional<Refusal> notes_filtered(const ConvProblem& problem, const std::vector<std::string>& notes,
                                      const SelectionFilter& filter) {
  for (const Loss& loss : kLosses) {
    if (!has_note(notes, loss.note)) continue;
    if (problem.math < loss.needs) {
      return no(fmt::format("math={}: this candidate {}", name_of(problem.math), loss.what));
    }
    if (!(filter.*loss.allowed)) return no(fmt::format("{}=0: this candidate {}", loss.filter_name, loss.what));
  }
  if (filter.deterministic_only && has_note(notes, note::nondeterministic)) {
    return no("deterministic_only=1: this candidate may give other bits each time");
  }
  if (!filter.runtime_compilation && has_note(notes, note::runtime_compilation)) {
    return no("runtime_compilation=0: this candidate is compiled at run time");
  }
  if (filter.notes != "*") {
    for (const std::string& each : notes) {
      if (!glob_list_matches(filter.notes, each)) {
        return no(fmt::format("notes='{}': this candidate has the note {}", filter.notes, each));
      }
    }
  }
  return std::nullopt;
}

std::optional<Refusal> engine_filtered(const EngineInfo& engine, const KnobValues& knobs,
                                       const SelectionFilter& filter) {
  if (auto reason = dropped_by(filter.config, engine)) return no(*reason);
  if (!engine_list_matches(filter.engines, engine.name, knobs)) {
    return no(fmt::format("engines='{}': this {} is not among them", filter.engines,
                          engine_list_may_match(filter.engines, engine.name) ? "candidate" : "engine"));
  }
  if (filter.deterministic_only && !engine.deterministic) {
    return no("deterministic_only=1: this engine may give other bits each time");
  }
  return std::nullopt;
}

std::optional<Refusal> workspace_filtered(std::size_t workspace_bytes, const SelectionFilter& filter) {
  if (!filter.workspace_limit || workspace_bytes <= *filter.workspace_limit) return std::nullopt;
  return Refusal{RefusalCode::workspace, fmt::format("workspace_limit={}: this candidate needs {} bytes",
                                                     *filter.workspace_limit, workspace_bytes)};
}

}  // namespace

bool needs_plan(const SelectionFilter& filter) { return filter.workspace_limit || filter.notes != "*"; }

bool may_be_chosen(const ConvProblem& problem, const Measurement& measurement, std::span<const Engine* const> engines,
                   const SelectionFilter& filter, const PlanRequest& request) {
  if (measurement.failure || workspace_filtered(measurement.workspace_bytes, filter)) return false;
  const Candidate& candidate = measurement.candidate;
  const auto engine = runnable_engine(problem, candidate, engines, request);
  if (!engine.ok() || filtered(problem, **engine, candidate.knobs, filter, request)) return false;
  if (filter.notes == "*") return true;
  const auto seen = plan_to_see(problem, candidate, engines, request);
  return seen.ok() && !filtered(problem, **engine, candidate.knobs, filter, request, seen->plan.get());
}

std::optional<Refusal> held_back(const ConvProblem& problem, const EngineInfo& engine,
                                 std::span<const EngineAnswer> answers, std::span<const Engine* const> engines,
                                 const SelectionFilter& filter, const PlanRequest& request) {
  if (!engine.oracle || engine_list_names(filter.engines, engine.name)) return std::nullopt;
  constexpr std::string_view kRule =
      "this engine is an oracle, chosen where it is named or nothing else can run the problem";
  const auto other = std::find_if(answers.begin(), answers.end(), [](const EngineAnswer& answer) {
    return !answer.refusal && !answer.engine->info().oracle;
  });
  if (other != answers.end()) {
    return no(fmt::format("engines='{}': {}; {} can", filter.engines, kRule, other->engine->info().name));
  }
  if (request.target_sms == 0) return std::nullopt;
  PlanRequest whole = request;
  whole.target_sms = 0;
  for (const Engine* each : engines) {
    if (each->info().oracle || refuse(*each, problem, whole)) continue;
    return no(fmt::format("target_sms={}: {}; {} can on all SMs", request.target_sms, kRule, each->info().name));
  }
  return std::nullopt;
}

}  // namespace selection

std::optional<Refusal> filtered(const ConvProblem& problem, const Engine& engine, const KnobValues& knobs,
                                const SelectionFilter& filter, const PlanRequest& request, const Plan* plan) {
  const EngineInfo& info = engine.info();
  if (is_empty(problem) && !info.oracle) return std::nullopt;  // filters choose among ways to multiply
  if (auto refusal = selection::engine_filtered(info, knobs, filter)) return refusal;
  const std::vector<std::string> notes = engine.notes(problem, knobs, request);
  if (filter.config == LibraryConfig::jit_only && !selection::is_own_oracle(info) &&
      !selection::has_note(notes, note::runtime_compilation)) {
    return selection::no("configuration=jit-only: this candidate is compiled beforehand");
  }
  if (auto refusal = selection::notes_filtered(problem, notes, filter)) return refusal;
  if (plan == nullptr) return std::nullopt;
  if (auto refusal = selection::workspace_filtered(plan->workspace_bytes(), filter)) return refusal;
  return selection::notes_filtered(problem, plan->notes(), filter);
}

}  // namespace convoy
