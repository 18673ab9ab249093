#include "select/filter.h"

#include <fmt/format.h>

#include <array>

#include "select/glob.h"
#include "select/notes.h"

namespace convoy {
namespace selection {
namespace {

Refusal no(std::string reason) { return {RefusalCode::filtered, std::move(reason)}; }

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

}  // namespace

std::optional<Refusal> engine_filtered(const EngineInfo& engine, const SelectionFilter& filter) {
  if (auto reason = dropped_by(filter.config, engine)) return no(*reason);
  if (!glob_list_matches(filter.engines, engine.name)) {
    return no(fmt::format("engines='{}': this engine is not among them", filter.engines));
  }
  if (filter.deterministic_only && !engine.deterministic) {
    return no("deterministic_only=1: this engine may give other bits each time");
  }
  return std::nullopt;
}

bool needs_plan(const SelectionFilter& filter) { return filter.workspace_limit || filter.notes != "*"; }

std::optional<Refusal> workspace_filtered(std::size_t workspace_bytes, const SelectionFilter& filter) {
  if (!filter.workspace_limit || workspace_bytes <= *filter.workspace_limit) return std::nullopt;
  return Refusal{RefusalCode::workspace, fmt::format("workspace_limit={}: this candidate needs {} bytes",
                                                     *filter.workspace_limit, workspace_bytes)};
}

std::optional<Refusal> plan_filtered(const ConvProblem& problem, const Plan& plan, const SelectionFilter& filter) {
  if (auto refusal = workspace_filtered(plan.workspace_bytes(), filter)) return refusal;
  return notes_filtered(problem, plan.notes(), filter);
}

}  // namespace selection

std::optional<Refusal> filtered(const ConvProblem& problem, const Engine& engine, const KnobValues& knobs,
                                const SelectionFilter& filter, const PlanRequest& request) {
  if (auto refusal = selection::engine_filtered(engine.info(), filter)) return refusal;
  return selection::notes_filtered(problem, engine.notes(problem, knobs, request), filter);
}

}  // namespace convoy
