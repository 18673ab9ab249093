// Choosing engines with a progress bar, for the subcommands that measure.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/program.h"
#include "convoy/selection_check.h"
#include "convoy/tuning_database.h"

namespace convoy::cli {

// The tuning database where CONVOY_DB or the XDG variables say.
Result<std::unique_ptr<TuningDatabase>> open_database(TuningDatabase::Access access);

// Where convoy tune MODEL keeps plans: beside the database, "tuning.plans" for "tuning.db". Empty where there is no
// place.
std::string kept_plans_folder();

// --no-db, for subcommands that can do without it.
void add_database_flag(Parser app, Program& program);

// For those: gives it to the options as their store, to read or, where they measure, to write. Where there is none, or
// --no-db is given, they keep null; what else keeps it from being used is a note. It must outlive sessions.
std::unique_ptr<TuningDatabase> attach_database(const Program& program, SelectionOptions& options);

// Network::prepare, with a bar while it measures.
Result<std::unique_ptr<Session>> prepare_with_progress(const Program& program, const Network& network,
                                                       std::span<const TensorDesc> inputs,
                                                       const NetworkOptions& options);

// Has `selection` read and measure with the caches that the network does (which are warm in a small one).
void take_caches(const Network& network, std::span<const TensorDesc> inputs, NetworkOptions options,
                 SelectionOptions& selection);

// The warnings of a session's selections (rules passed over, budgets that ended), each once, to standard error.
void say_warnings(const Program& program, const Session& session);

// A problem of a network or a list, once for all its occurrences.
struct DistinctProblem {
  ConvProblem problem;
  std::int64_t count = 1;
  std::string names;       // of the layers, comma-separated
  std::size_t number = 0;  // its place in the network or list, from 1; what --node takes
  std::string node;        // the first of the names: rules decide for all as for this one
};
// The convolutions of a session in order of first occurrence; what different rules decided is not the same.
std::vector<DistinctProblem> distinct_problems(const Session& session);
// Of each step the number of its problem among those, 0 where it is no convolution.
std::vector<std::size_t> layer_numbers(const Session& session);

// --node, for subcommands that show much of a network or a list.
void add_node_flag(Parser app, std::string& nodes);
// Whether a layer with these names (comma-separated), of this problem string and number, is meant: `nodes` is a number,
// or a list of globs for one of the names or the string; empty means all.
bool node_matches(const std::string& nodes, const std::string& names, const std::string& problem, std::size_t number);
// Those of the problems that --node means; their numbers count from 1. None is an error that names some that there are.
Result<std::vector<DistinctProblem>> with_nodes(const std::vector<DistinctProblem>& problems, const std::string& nodes);
// Convolutions as rules see them: each by itself.
std::vector<ConvolutionNode> convolutions_of(const Session& session);
std::vector<ConvolutionNode> convolutions_of(std::span<const DistinctProblem> problems);

// Names the rules that matched none of these convolutions, and those that decided none of what they matched, to
// standard error. For --json: what became of each; null where there are none.
Json say_rule_uses(const Program& program, std::string_view flag, const std::vector<SelectionRule>& rules,
                   const std::vector<ConvolutionNode>& convolutions);

// Everything known about one problem: who could run it, and how fast those were.
struct ProblemReport {
  DistinctProblem distinct;
  std::vector<EngineAnswer> answers;
  Selection selection;           // with its measurements; empty where `failure`
  std::optional<Error> failure;  // nothing could run it, or everything was wrong
};

// What to do where a GPU's problem has no candidate that keeps to --sm-count; empty where that was not given.
std::string sm_count_advice(const ConvProblem& problem, const PlanRequest& request);

// The request with random constant weights for the problem, as a network has them: packed once, beforehand. The tensor
// keeps them alive; wgrad, which computes the weights, has none, nor have GPUs.
struct WeightedRequest {
  PlanRequest request;
  HostTensor weights;
};
Result<WeightedRequest> with_constant_weights(const ConvProblem& problem, const PlanRequest& request);

// Measures every problem within options.budget_seconds, in rounds with a fair share each (select/tune/rounds.h), as a
// network pays for it: weights packed beforehand. `to_the_end`: no candidate is given up for being slow.
Result<std::vector<ProblemReport>> measure_problems(const Program& program,
                                                    const std::vector<DistinctProblem>& problems,
                                                    const SelectionOptions& options, const PlanRequest& request,
                                                    const std::string& title, bool to_the_end = false);

// Rules that make a network run on what was chosen, in front of those already there.
std::vector<SelectionRule> rules_of(const std::vector<ProblemReport>& reports);

}  // namespace convoy::cli
