// Why a problem runs on what it runs on: every engine's answer, what was chosen, by what, and why the next best was
// not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection.h"
#include "select/explain/advice.h"

namespace convoy::selection {

struct EngineVerdict {
  EngineAnswer answer;
  std::optional<Refusal> excluded;  // it can, but filtered() keeps it from being chosen, or it is an oracle
  // Measured now, or remembered by the store: what was chosen, of other engines the fastest that is known.
  std::optional<Measurement> measured;
  // Of the plan of its default candidate, where it can:
  std::size_t workspace_bytes = 0;
  std::vector<std::string> notes;   // the engine's and the plan's
  std::vector<std::string> stages;  // stages_of the plan
  std::optional<Error> no_plan;
};

struct Explanation {
  std::vector<EngineVerdict> engines;  // in the order given
  std::optional<Selection> chosen;
  std::optional<Error> nothing;     // why nothing was
  std::vector<std::string> stages;  // of the chosen candidate's plan
  std::string description;          // and its Plan::description()
  std::vector<Advice> advice;       // for a GPU, whatever it runs on
  std::string decided_by;           // "rule 'P': nothing else was considered", "the heuristic, among 4 candidates"
  std::optional<Candidate> runner_up;
  std::string why_not_runner_up;  // "predicted to take 1.31 times as long (1.2 ms against 0.9 ms)"
  // Candidates that promise to be faster than the chosen one, each with what kept it out: "cpu.winograd{m=4}, predicted
  // to take 0.8 times as long: engines='cpu.direct': this engine is not among them".
  std::vector<std::string> passed_over;
};

// Selects with `options` (so it measures where they do) and collects the reasons. `node_name` as for select.
Explanation explain(const ConvProblem& problem, std::span<const Engine* const> engines, const SelectionOptions& options,
                    const PlanRequest& request, std::string_view node_name = {});

}  // namespace convoy::selection
