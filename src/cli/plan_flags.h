// How a network's choices are made: flags of run, plan and compare.
#pragma once

#include <string>
#include <vector>

#include "cli/program.h"

namespace convoy::cli {

struct PlanFlags {
  std::string how = "tuned";
  std::string plan_file;  // empty: none
  bool lenient = false;
  std::string precision = "f32";
  std::vector<std::string> skip_passes;
};
void add_plan_flags(CLI::App& app, PlanFlags& flags);

// Whether flags leave engines out, or choose among them otherwise than by time: kept plans are made without such flags.
bool restricts_engines(const SharedOptions& shared);

const std::vector<std::string>& how_names();  // that --how takes

// --precision, as NetworkOptions has it.
void add_precision_flag(CLI::App& app, std::string& precision);
Result<DataType> parse_precision(const std::string& text);

// --how, as NetworkOptions has it.
void add_how_flag(CLI::App& app, std::string& how);

// The options as these flags change them: a plan's threads and math are its own where no flag gives others. Errors name
// the file.
Result<void> apply(const Program& program, const PlanFlags& flags, NetworkOptions& options);

// `side` of a comparison: a plan file, or as --how has it.
Result<NetworkOptions> options_of_side(const Program& program, const std::string& side, const NetworkOptions& options);

}  // namespace convoy::cli
