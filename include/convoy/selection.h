// Choosing an engine for a convolution problem: who can run it and why the others can't; by heuristic, by measurement
// or by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection_options.h"

namespace convoy {

// One engine's answer for a problem.
struct EngineAnswer {
  const Engine* engine = nullptr;
  std::optional<Refusal> refusal;  // set: it can't
  Configurations configurations;   // it can: what can be tuned
  Candidate default_candidate;     // it can: with its default configuration
  double predicted_seconds = 0;    // it can: of the default candidate
};

// What decided a selection.
enum class SelectedBy : std::uint8_t {
  heuristic,     // predictions
  rule,          // explicit selection: Selection::rule is its pattern
  measured,      // measurements, of which one at least was made for it
  stored,        // measurements made before, of this problem as it is asked for
  network_hint,  // who won in a run of a network, made before. It need not have been this network: a hint
  plan,          // a line of a network's plan file
  given,         // the caller, who compares candidates (SwitchableSession)
};
std::string_view name_of(SelectedBy by);  // "heuristic", "rule", .., "network hint", ..

struct Selection {
  Candidate candidate;
  SelectedBy by = SelectedBy::heuristic;
  std::string rule;                       // by a rule: its pattern
  bool partial = false;                   // measured: it was ended before everything that may win was settled
  std::vector<std::string> warnings;      // a rule that fell back, a budget that ended early
  std::vector<Measurement> measurements;  // measured: all of them, fastest first, failures last

  // What decided, for people: "rule 'pattern'", else name_of(by).
  std::string reason() const;
};

// The engines to choose from are given, so that tests can hand in fakes; all_engines() is the usual span.
std::vector<EngineAnswer> list_candidates(const ConvProblem& problem, std::span<const Engine* const> engines,
                                          const PlanRequest& request);

// Why the filter, its configuration or the problem's math mode keeps a candidate of `engine`, which can run the
// problem, from being chosen; nothing where none does. Every way of choosing, measuring and explaining asks here. What
// only plans know (workspace, notes of their own) counts where the candidate's `plan` is given.
std::optional<Refusal> filtered(const ConvProblem& problem, const Engine& engine, const KnobValues& knobs,
                                const SelectionFilter& filter, const PlanRequest& request, const Plan* plan = nullptr);

// Candidates that pass the filter as far as it can be told without plans, best predicted first. Oracles come last, and
// only where the filter's `engines` name them in full or no other engine can run the problem.
std::vector<Candidate> rank_by_heuristic(const ConvProblem& problem, std::span<const Engine* const> engines,
                                         const SelectionFilter& filter, const PlanRequest& request);

// The first of rank_by_heuristic, found in some 15 microseconds, without ranking the others: engines answer from the
// problem alone where they can (Engine::estimate), and only what would win is asked where it is not certain. Nothing
// where no engine passes, or oracles only. It is a prediction: planning the candidate may refuse it after all. What
// select() returns has been asked.
struct Prediction {
  Candidate candidate;
  double seconds = 0;
};
std::optional<Prediction> predict_best(const ConvProblem& problem, std::span<const Engine* const> engines,
                                       const SelectionFilter& filter, const PlanRequest& request);

// Called after each new measurement, once it is stored; returning false ends the tuning.
using SelectionProgress = std::function<bool(const Measurement& measurement, int done, int total)>;

// Chooses a candidate that can be planned: its engine has been asked, which takes up to milliseconds (planning asks the
// same again, and is answered from memory). Where that refuses what was predicted to be best, the best that can takes
// its place, and a warning says so. `node_name` is matched by rules of the form node=GLOB; empty outside a network.
// Fails with `unsupported` and every engine's refusal when nothing can run the problem.
Result<Selection> select(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request, std::string_view node_name = {},
                         const SelectionProgress& progress = {});

// Finds the engine and makes the plan; a refusal or an unknown knob becomes an error that says so. Knobs that the
// candidate leaves out are completed(); one that is written as Convoy did before configurations had names is
// understood.
Result<std::unique_ptr<ConvPlan>> make_plan(const ConvProblem& problem, const Candidate& candidate,
                                            std::span<const Engine* const> engines, const PlanRequest& request);

}  // namespace convoy
