// The choice file: what `convoy exec` tells the interposer in the program's processes before they start. Text that a
// person can read, a line each, fields separated by tabs:
//   convoy-choices 2
//   time    DEVICE  VERSION OF CUDNN  PROBLEM  CANDIDATE  COST   measured; COST is what is to be small, inf: it failed;
//                                                                Convoy's own engines have the version "-"
//   rule    PATTERN  CANDIDATE                                   in the order of the rules file
//   filter  engines GLOBS | deterministic | notes GLOBS | workspace BYTES | sm-count N
//   strict                                                       what can't be obeyed fails the program's query
//   like-benchmark                                               what notes say is lost is left to the program's
//   filters
// A problem keeps the alignments it was measured with. It has math=strict, since nobody tells cuDNN the math mode.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convoy/selection_options.h"
#include "convoy/tuning_database.h"

namespace convoy::cli {

// What a person asked for.
struct ChoiceOptions {
  SelectionFilter filter;  // engines, deterministic_only, notes and workspace_limit; the interposer has no others
  std::vector<SelectionRule> rules;
  bool strict = false;
  Objective objective;
  bool like_benchmark = false;  // what notes say is left to the program's filters
  int sm_count = 0;             // only what was measured with so many SMs counts; 0: with all
};

// Whether anything besides the objective is asked for: then the program is steered with an empty database, too.
bool asks_for_something(const ChoiceOptions& options);

// The rules as the interposer matches them, in the same order. A pattern that is a whole problem string loses its math
// mode, as the program's problems have none, and knobs of -1 are not named.
std::vector<SelectionRule> rules_for_programs(std::span<const SelectionRule> rules);

// A row of the choice file's `time` lines: all that a candidate costs.
struct KnownCost {
  std::string device;   // "NVIDIA H200"
  std::string cudnn;    // "9.19.0"; "-" for Convoy's own engines
  std::string problem;  // math=strict
  std::string candidate;
  double cost;
  // What it was measured with. cuDNN's plans use TF32 or not as their configuration says, and count as strict; what
  // runs in place of them has to be told.
  MathMode math = MathMode::strict;
};

// What the records say of the engines on GPUs (those of `engines`, of their revisions), sorted. A problem's costs are
// of one state of the caches: cold where it was measured so. Of what was measured in several math modes the least
// counts; a failure only where there is nothing else. With an objective that weighs energy, rows without it are left
// out.
std::vector<KnownCost> known_costs(std::span<const TuningRecord> records, std::span<const Engine* const> engines,
                                   const Objective& objective, int sm_count);

// A line each, as the choice file has them.
std::string time_lines(std::span<const KnownCost> costs);

std::string choice_file(std::span<const KnownCost> costs, const ChoiceOptions& options);

}  // namespace convoy::cli
