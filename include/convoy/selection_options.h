// What decides a selection besides the problem: filters, rules, objective, budget. Two options that compare equal
// select alike (budgets and machines' noise aside), so they are what a cache's key holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/measurement.h"

namespace convoy {

// What the library has at all, after cuDNN's configurations (CUDNN_LIB_CONFIG=GRAPH_JIT_ONLY).
enum class LibraryConfig : std::uint8_t {
  full,      // every engine of this build
  jit_only,  // candidates that are compiled for the problem at run time (note RUNTIME_COMPILATION), and own oracles
  portable,  // own CPU engines ("cpu.*") and own oracles
};
std::string_view name_of(LibraryConfig config);  // "full", "jit-only", "portable"
Result<LibraryConfig> parse_library_config(std::string_view name);

// What CONVOY_CONFIG named when it was first asked for; full where it names none. Filters do not ask: the command and
// the C interface (so Python, too) put it into theirs.
LibraryConfig library_config();

// Why a configuration has no candidate of this engine; nothing where it may have some. With jit_only an engine whose
// notes vary is asked for each (filtered() in selection.h).
std::optional<std::string> dropped_by(LibraryConfig config, const EngineInfo& engine);

// What is allowed to be chosen, by any way of selecting. Filters never change what an engine is, what is measured or
// what is stored.
struct SelectionFilter {
  LibraryConfig config = LibraryConfig::full;
  std::string engines = "*";  // "cpu.*,!cpu.winograd", "cpu.nhwc{engine=cpu.winograd}": docs/selection.md, Filters
  std::string notes = "*";    // glob list that every note of a candidate must match: "!WINOGRAD,!FFT"
  bool deterministic_only = false;
  bool runtime_compilation = true;  // candidates with the note RUNTIME_COMPILATION
  // The problem's math mode says what precision may be given up; these take parts of that back.
  bool tf32 = true;                            // candidates with the note TF32
  bool reduced_accumulation = true;            // REDUCED_PRECISION_REDUCTION
  bool down_convert_inputs = true;             // DOWN_CONVERT_INPUTS
  std::optional<std::size_t> workspace_limit;  // bytes
  friend bool operator==(const SelectionFilter&, const SelectionFilter&) = default;
};

// What is to be small: each term is a candidate's value over the least one among the candidates that may win (of
// workspace, 1 MiB is added to both), times its weight, and the smallest sum wins; equal sums go to the faster.
struct Objective {
  double time = 1;
  double workspace = 0;
  double energy = 0;  // `unsupported` where this machine has no counter that can be read
  friend bool operator==(const Objective&, const Objective&) = default;
};
// "time", "workspace", "energy", or weights: "time=1,energy=0.5".
Result<Objective> parse_objective(std::string_view text);
std::string print(const Objective& objective);

// One rule of explicit selection: the problems that `pattern` matches run on `candidate`. A pattern is one of
//   GLOB          over the whole problem string: "fprop:*64x64x3x3*"
//   TERM TERM ..  over its fields, all of which must hold: "pass=fprop groups=1 filter=3x3 channels>=64"
// A term is FIELD OP VALUE. '=' and '!=' compare with globs, '|' between alternatives ("filter=3x3|5x5"); '<', '<=',
// '>' and '>=' compare numbers, of sizes like 56x56 each one. A single number stands for the same in every dimension
// ("stride=2"). rule_fields() lists the fields. `node` is the node's name in a network.
struct SelectionRule {
  std::string pattern;
  Candidate candidate;
  friend bool operator==(const SelectionRule&, const SelectionRule&) = default;
};
// A rules file: one "pattern -> engine{knob=value}" a line, '#' comments. Errors name the line.
Result<std::vector<SelectionRule>> parse_rules(std::string_view text);

struct RuleField {
  std::string_view name;
  std::string_view meaning;
};
std::vector<RuleField> rule_fields();

enum class SelectionMode : std::uint8_t { heuristic, measured };

struct SelectionOptions {
  SelectionMode mode = SelectionMode::heuristic;
  SelectionFilter filter;
  std::vector<SelectionRule> rules;  // the first that matches decides
  // A rule's candidate that can't run, or that the filter forbids, is an error; otherwise a warning and fallback.
  bool strict_rules = true;
  Objective objective;
  // Measured: end within so long (0: no limit), but for a first answer: where no candidate is known to be right, the
  // first that is gets planned and timed however short the budget, unless that would take ten seconds more. Negative:
  // nothing is measured, what `store` knows counts.
  double budget_seconds = 0;
  // Measured: no more than the most likely ones, and those predicted to take less than the best of these took, so that
  // a budget can be shared among problems in rounds. What is left makes the selection partial.
  bool likely_only = false;
  bool all_knobs = false;  // measured: knob values too, the best engines' first, not only each engine's default
  CacheState caches = CacheState::cold;
  // Set by networks that were given cold `caches`, which they make warm where all of them stays in a core's cache:
  // choices read `store` as if `caches` were cold where it knows no times of that state, or an order from a network.
  bool in_network = false;
  // What was measured before; null: nothing. Measured: a candidate is measured only where a current and settled
  // measurement is missing, and each new one is stored as soon as it exists (first as partial, then as cut off or
  // complete). Heuristic: nothing is measured, and where the candidate it would choose was measured, the fastest
  // measured one is taken instead; where candidates were compared in a network (network_tuning.h), whichever it was,
  // the one that won there is, if `caches` is cold, or `in_network`, and only time counts (SelectedBy::network_hint).
  MeasurementStore* store = nullptr;
  // Measured: once it is true (a signal handler or another thread may set it) measuring ends as soon as it can, with
  // what is known.
  const std::atomic<bool>* stop = nullptr;
  friend bool operator==(const SelectionOptions&, const SelectionOptions&) = default;
};

}  // namespace convoy
