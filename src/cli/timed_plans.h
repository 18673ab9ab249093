// Plans of a network timed side by side, for convoy report and compare.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/plan_flags.h"
#include "cli/program.h"
#include "report/network_report.h"

namespace convoy::cli {

// A plan file, or as --how has it (options_of_side): as it will be replayed. Its options have the plan.
struct PlannedSide {
  std::string name;  // as it was given
  NetworkOptions options;
  std::vector<std::string> remarks;
};
// What options.selection measures is measured here. Errors name the side.
Result<PlannedSide> plan_side(const Program& program, const Network& network, std::span<const TensorDesc> descs,
                              const std::string& side, const NetworkOptions& options, const MemoryFlags& memory = {});

// Those plans, with what they took interleaved (network::time_side_by_side).
Result<std::vector<report::NetworkPlan>> time_plans(const Network& network, std::span<const TensorDesc> descs,
                                                    std::span<const PlannedSide> planned,
                                                    std::span<const HostTensor> inputs, int rounds);

// A line each, with times of other programs behind them.
void say_plans(const Program& program, std::span<const report::NetworkPlan> plans,
               std::span<const report::Peer> peers = {});

}  // namespace convoy::cli
