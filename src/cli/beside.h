// A network with its own choices and with other ones, interleaved within one process: convoy run --beside.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/program.h"
#include "network/tune/side_by_side.h"
#include "select/measure/statistics.h"

namespace convoy::cli {

inline constexpr const char* kBesideHelp =
    "Then time it side by side with other choices in the same process, --repeat runs of each, interleaved: heuristic "
    "(predicted, "
    "no rules, nothing stored), stored (no rules), or a rules file in place of --rules";

// The options of the other side: "heuristic", "stored", or a rules file. Only rules and the store differ from `own`.
Result<NetworkOptions> other_side(const Program& program, const std::string& beside, const NetworkOptions& own);

struct Beside {
  std::string what;                              // as it was given
  selection::Summary ratio;                      // how many times as long the network takes with the other choices
  std::int64_t convolutions = 0, differing = 0;  // and how many of them run on something else there
  network::Timed own, other;
};
// Errors of preparing the other side name it.
Result<Beside> compare_sides(const Network& network, std::span<const TensorDesc> descs, const std::string& what,
                             const NetworkOptions& own, const NetworkOptions& other, std::span<const HostTensor> inputs,
                             int rounds);

// "+-3.1% (20 runs of each, interleaved in one process)", and that no difference is shown where the ratio is within
// that of 1.
std::string certainty_of(const selection::Summary& ratio);

Json say_beside(const Program& program, const Beside& beside);

}  // namespace convoy::cli
