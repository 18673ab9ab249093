// Choosing which nodes of a network run narrower than f32, within an error of its outputs that is measured.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convoy/network_tuning.h"

namespace convoy {

// The inputs of one run, by position.
using NetworkInputs = std::vector<HostTensor>;

// The greatest of its outputs' errors: of each floating one, the L2 norm of what differs over the L2 norm of the
// expected. Infinite where something is no number that is expected to be one, or a type or size differs.
double relative_error(std::span<const HostTensor> actual, std::span<const HostTensor> expected);

// A node, and what running it, and nothing else, in the narrow type does to the outputs.
struct NarrowedNode {
  std::string name;  // as its line in a plan
  double error = 0;
};

struct PrecisionChoice {
  NetworkPlan plan;                 // its remarks say the errors, too
  double error = 0;                 // measured, of this plan on the inputs
  double predicted_seconds = 0;     // of its lines together
  double f32_seconds = 0;           // those of the plan with everything in f32
  double narrow_error = 0;          // of the fastest plan, whatever its error
  double narrow_seconds = 0;        // likewise
  int narrowed = 0;                 // nodes of the plan that are narrow
  std::vector<NarrowedNode> nodes;  // narrow in the fastest plan; empty where nothing had to be looked at one by one
  std::vector<std::string> remarks;
};

// The plan of the least predicted time, of all layouts and of strict f32 and options.precision (bf16 or f16) at each
// node, whose outputs differ from the f32 network's by at most `max_error` on every one of `inputs` (at least one).
// With precision = f32 and options.math = tf32 each convolution is strict or computed so. Where the network's home is a
// GPU, so are both runs. Errors of nodes are measured one at a time, and taken to add up as squares; the whole is run,
// and its limit made narrower or wider until what was measured is within max_error, and near it. Within
// options.selection.budget_seconds (0: no limit), those nodes first that gain most: nodes that it does not reach stay
// f32. Errors: those of prepare and run; invalid_argument where precision is f32 and math strict, and where neither is;
// unsupported with a limit on memory.
Result<PrecisionChoice> choose_precision(const Network& network, std::span<const NetworkInputs> inputs,
                                         const NetworkOptions& options, double max_error,
                                         const NetworkTuningProgress& progress = {});

}  // namespace convoy
