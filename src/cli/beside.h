// A network with its own choices and with other ones, in turns within one process: convoy run --beside, convoy compare.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/program.h"
#include "select/measure/statistics.h"

namespace convoy::cli {

inline constexpr const char* kBesideHelp =
    "Then time it side by side with other choices in the same process, --repeat turns of each: heuristic (predicted, "
    "no rules, nothing stored), stored (no rules), or a rules file in place of --rules";

// The options of the other side: "heuristic", "stored", or a rules file. Only rules and the store differ from `own`.
Result<NetworkOptions> other_side(const Program& program, const std::string& beside, const NetworkOptions& own);

// What a side ran, and the median of what each step took in the runs that counted.
struct Side {
  std::vector<NetworkStep> steps;
  std::vector<double> step_seconds;
  selection::Summary seconds;  // of a run
  // Of a run while nobody else uses the processor's cores and caches: of each step the tenth fastest of a hundred runs.
  // Who shares a core halves what it computes, for milliseconds at a time, which a whole run seldom escapes.
  double undisturbed_seconds = 0;
  selection::Summary ratio;          // how many times as long it takes as the first side
  std::vector<std::string> remarks;  // of its plan: Session::remarks()
  std::vector<ActivationBuffer> activations;
  std::size_t activation_bytes = 0, weight_bytes = 0, workspace_bytes = 0;
};

struct NamedOptions {
  std::string name;  // errors of preparing name it; empty: they don't
  NetworkOptions options;
};

// Each side runs `rounds` times, in turns.
Result<std::vector<Side>> time_sides(const Network& network, std::span<const TensorDesc> descs,
                                     std::span<const NamedOptions> sides, std::span<const HostTensor> inputs,
                                     int rounds);

struct Beside {
  std::string what;                              // as it was given
  selection::Summary ratio;                      // how many times as long the network takes with the other choices
  std::int64_t convolutions = 0, differing = 0;  // and how many of them run on something else there
  Side own, other;
};
// Errors of preparing name the side they are of: `what`, or `own_name` where it is given.
Result<Beside> compare_sides(const Network& network, std::span<const TensorDesc> descs, const std::string& what,
                             const NetworkOptions& own, const NetworkOptions& other, std::span<const HostTensor> inputs,
                             int rounds, const std::string& own_name = {});

Json say_beside(const Program& program, const Beside& beside);

}  // namespace convoy::cli
