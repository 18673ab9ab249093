// Choosing an engine for a convolution problem: who can run it and why the others can't; by heuristic, by measurement
// or by name.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/measurement.h"

namespace convoy {

// One engine's answer for a problem.
struct EngineAnswer {
  const Engine* engine = nullptr;
  std::optional<Refusal> refusal;  // set: it can't
  std::vector<Knob> knobs;         // it can: what can be tuned
  Candidate default_candidate;     // it can: with its default knobs
  double predicted_seconds = 0;    // it can: of the default candidate
};

// What is allowed to be chosen. Filters never change what an engine is or what is measured, only what may win.
struct SelectionFilter {
  std::string engines = "*";  // glob list over engine names, '!' excludes: "cpu.*,!cpu.winograd"
  bool deterministic_only = false;
  std::optional<std::size_t> workspace_limit;  // bytes
};

// One rule of explicit selection: problems that match `pattern` (a glob over the problem string, or over a node's name
// in a network as "node=GLOB") run on `candidate`.
struct SelectionRule {
  std::string pattern;
  Candidate candidate;
};
// A rules file: one "pattern -> engine{knob=value}" a line, '#' comments. Errors name the line.
Result<std::vector<SelectionRule>> parse_rules(std::string_view text);

enum class SelectionMode : std::uint8_t { heuristic, measured };

struct SelectionOptions {
  SelectionMode mode = SelectionMode::heuristic;
  SelectionFilter filter;
  std::vector<SelectionRule> rules;  // the first that matches decides
  bool strict_rules = true;          // a rule's candidate that can't run is an error; otherwise a warning and fallback
  double budget_seconds = 0;         // measured: stop after this long (0: no limit)
  bool all_knobs = false;            // measured: every knob value, not only each engine's default
  CacheState caches = CacheState::cold;
  // What was measured before; null: nothing. Measured: a candidate is measured only where a current and settled
  // measurement is missing, and each new one is stored as soon as it exists (first as partial, then as cut off or
  // complete). Heuristic: nothing is measured, and where the candidate it would choose was measured, the fastest
  // measured one is taken instead.
  MeasurementStore* store = nullptr;
  // Measured: once it is true (a signal handler or another thread may set it) measuring ends as soon as it can, with
  // what is known.
  const std::atomic<bool>* stop = nullptr;
};

struct Selection {
  Candidate candidate;
  std::string reason;                     // "rule 'pattern'", "heuristic", "measured", "stored"
  std::vector<std::string> warnings;      // a rule that fell back, a budget that ended early
  std::vector<Measurement> measurements;  // measured: all of them, fastest first, failures last
};

// The engines to choose from are given, so that tests can hand in fakes; all_engines() is the usual span.
std::vector<EngineAnswer> list_candidates(const ConvProblem& problem, std::span<const Engine* const> engines,
                                          const PlanRequest& request);

// Candidates that pass the filter, best predicted first (never the oracle unless nothing else can).
std::vector<Candidate> rank_by_heuristic(const ConvProblem& problem, std::span<const Engine* const> engines,
                                         const SelectionFilter& filter, const PlanRequest& request);

// Called after each new measurement, once it is stored; returning false ends the tuning.
using SelectionProgress = std::function<bool(const Measurement& measurement, int done, int total)>;

// `node_name` is matched by rules of the form node=GLOB; empty outside a network. Fails with `unsupported` and every
// engine's refusal when nothing can run the problem.
Result<Selection> select(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request, std::string_view node_name = {},
                         const SelectionProgress& progress = {});

// Finds the engine and makes the plan; a refusal or an unknown knob becomes an error that says so.
Result<std::unique_ptr<ConvPlan>> make_plan(const ConvProblem& problem, const Candidate& candidate,
                                            std::span<const Engine* const> engines, const PlanRequest& request);

}  // namespace convoy
