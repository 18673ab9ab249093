// Choosing engines with a progress bar, for the subcommands that measure.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/program.h"
#include "convoy/tuning_database.h"

namespace convoy::cli {

// The tuning database where CONVOY_DB or the XDG variables say.
Result<std::unique_ptr<TuningDatabase>> open_database(TuningDatabase::Access access);

// For subcommands that can do without it: gives it to the options as their store, to read or, where they measure, to
// write. Where there is none they keep null; what else keeps it from being used is a note. It must outlive sessions.
std::unique_ptr<TuningDatabase> attach_database(const Program& program, SelectionOptions& options);

// Network::prepare, with a bar while it measures.
Result<std::unique_ptr<Session>> prepare_with_progress(const Program& program, const Network& network,
                                                       std::span<const TensorDesc> inputs,
                                                       const NetworkOptions& options);

// The warnings of a session's selections (rules passed over, budgets that ended), each once, to standard error.
void say_warnings(const Program& program, const Session& session);

// A problem of a network or a list, once for all its occurrences.
struct DistinctProblem {
  ConvProblem problem;
  std::int64_t count = 1;
  std::string names;  // of the layers, comma-separated
};
// The convolutions of a session in order of first occurrence.
std::vector<DistinctProblem> distinct_problems(const Session& session);

// Everything known about one problem: who could run it, and how fast those were.
struct ProblemReport {
  DistinctProblem distinct;
  std::vector<EngineAnswer> answers;
  Selection selection;           // with its measurements; empty where `failure`
  std::optional<Error> failure;  // nothing could run it, or everything was wrong
};

// The request with random constant weights for the problem, as a network has them: packed once, beforehand. The tensor
// keeps them alive; wgrad, which computes the weights, has none, nor have GPUs.
struct WeightedRequest {
  PlanRequest request;
  HostTensor weights;
};
Result<WeightedRequest> with_constant_weights(const ConvProblem& problem, const PlanRequest& request);

// Measures every problem within options.budget_seconds, in rounds with a fair share each (select/rounds.h), as a
// network pays for it: weights packed beforehand.
Result<std::vector<ProblemReport>> measure_problems(const Program& program,
                                                    const std::vector<DistinctProblem>& problems,
                                                    const SelectionOptions& options, const PlanRequest& request,
                                                    const std::string& title);

// Rules that make a network run on what was chosen, in front of those already there.
std::vector<SelectionRule> rules_of(const std::vector<ProblemReport>& reports);

}  // namespace convoy::cli
