// How a network's choices are made: flags of run, plan and compare.
#pragma once

#include <string>
#include <vector>

#include "cli/program.h"

namespace convoy::cli {

// What a plan's memory is to be.
struct MemoryFlags {
  std::uint64_t activation_limit = 0, weight_limit = 0;  // bytes
  bool limits_activations = false, limits_weights = false;
  bool exact = false;
};
void add_memory_flags(Parser app, MemoryFlags& flags);
// The one of them, or --objective memory, that was given, for messages; empty: none.
std::string given_flag(const MemoryFlags& flags, const NetworkOptions& options);

struct PlanFlags {
  std::string how = "tuned";
  MemoryFlags memory;
  std::string plan_file;  // empty: none
  bool lenient = false;
  std::string precision = "f32";
  std::string parts;  // empty: by predictions, or as the plan has them
  std::vector<std::string> skip_passes;
};
void add_plan_flags(Parser app, PlanFlags& flags);

// Whether flags leave engines out, or choose among them otherwise than by time: kept plans are made without such flags.
bool restricts_engines(const SharedOptions& shared);

const std::vector<std::string>& how_names();  // that --how takes

// --precision, as NetworkOptions has it.
void add_precision_flag(Parser app, std::string& precision);
Result<void> apply_precision(const std::string& text, NetworkOptions& options);

// --batch-parts; empty: not given.
void add_parts_flag(Parser app, std::string& parts);
Result<void> apply_parts(const std::string& parts, NetworkOptions& options);

// --how, as NetworkOptions has it.
void add_how_flag(Parser app, std::string& how);

// Program::network_options, for subcommands that make plans: there --objective takes memory, too.
Result<NetworkOptions> planning_options(const Program& program, double default_budget = 0);
// --no-graph and --sync.
void add_home_flags(Parser app, Program& program);

// The options as these flags change them, which planning_options gave: a plan's threads and math are its own where no
// flag gives others. Errors name the file.
Result<void> apply(const Program& program, const PlanFlags& flags, NetworkOptions& options);

// Whether a side, as options_of_side has it, is made by "global".
bool is_global(const std::string& side);

// `side` of a comparison: a plan file, or as --how has it, then perhaps as --batch-parts has it: "greedy,1/thread".
// What the memory is to be is for "global" only.
Result<NetworkOptions> options_of_side(const Program& program, const std::string& side, const NetworkOptions& options,
                                       const MemoryFlags& memory = {});

}  // namespace convoy::cli
