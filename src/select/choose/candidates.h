// Inner steps shared by the ways of selecting.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"

namespace convoy::selection {

// The engine a candidate names, when it exists, takes the problem and has a configuration with these knob values;
// otherwise an error that says which of these fails.
Result<const Engine*> runnable_engine(const ConvProblem& problem, const Candidate& candidate,
                                      std::span<const Engine* const> engines, const PlanRequest& request);

// The candidate that somebody wrote, as its engine has it: written as today, no knob left out (but where none is named,
// which is the default). The errors are runnable_engine()'s.
Result<Candidate> whole_candidate(const ConvProblem& problem, const Candidate& candidate,
                                  std::span<const Engine* const> engines, const PlanRequest& request);

// That error where it doesn't take the problem.
Error cannot_run(const Engine& engine, const ConvProblem& problem, const Refusal& refusal);

// Every candidate of an engine for a problem, the default first. Of combinations, knobs that would take them over 4096
// are varied alone.
std::vector<Candidate> all_configurations(const Engine& engine, const ConvProblem& problem, const PlanRequest& request);

// The engine's default candidate, unless the filter's `engines` leave out that and not all of its others: then the
// best predicted of those that pass the filter, if there is one.
void take_admitted(EngineAnswer& answer, const ConvProblem& problem, const SelectionFilter& filter,
                   const PlanRequest& request);

// What predict_best() predicts at least, without a provider being asked; infinity: nothing can run it. Nothing where
// the filter's `engines` may leave out an engine's default and not its others.
std::optional<double> predict_at_least(const ConvProblem& problem, std::span<const Engine* const> engines,
                                       const SelectionFilter& filter, const PlanRequest& request);

// A plan to look at, not to run: where weights are constant it has zeros, since who only chooses has none yet.
struct PlanToSee {
  HostTensor weights;
  std::unique_ptr<ConvPlan> plan;
};
Result<PlanToSee> plan_to_see(const ConvProblem& problem, const Candidate& candidate,
                              std::span<const Engine* const> engines, const PlanRequest& request);

// A candidate's failure, which names the candidate once.
std::string failure_text(const Measurement& measurement);

// Whether it can't run, as planning found out: it was refused and is not at fault.
inline bool refused(const Measurement& m) { return m.failure && m.failure->code == ErrorCode::unsupported; }

}  // namespace convoy::selection
