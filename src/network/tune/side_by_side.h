// Networks timed side by side: sessions with different choices run interleaved within one process.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "select/measure/statistics.h"

namespace convoy::network {

struct Variant {
  std::string name;  // for errors; may be empty
  NetworkOptions options;
};

// What a variant ran, and what it took.
struct Timed {
  std::vector<NetworkStep> steps;
  std::vector<double> step_seconds;  // median of the runs that counted; on a GPU without what timing them adds
  int turns = 1;                     // Session::turns()
  selection::Summary seconds;        // of a run
  selection::Summary over_first;     // how many times as long as the first variant, round by round
  // Of a run while nobody else uses the processor's cores and caches: of each step the tenth fastest of a hundred runs.
  // Who shares a core halves what it computes, for milliseconds at a time, which a whole run seldom escapes. On a GPU
  // the tenth fastest of a hundred runs.
  double undisturbed_seconds = 0;
  std::vector<std::string> remarks;  // Session::remarks()
  std::vector<ActivationBuffer> activations;
  std::size_t activation_bytes = 0, weight_bytes = 0, workspace_bytes = 0;
};

// By variant. `rounds` runs of each, interleaved, all prepared anew up to four times meanwhile (on a GPU twice): where
// their memory lies makes two sessions of the same choices differ by a few percent. `go_on` is asked before each run
// and each preparing; where it says no, the rounds that are whole count: `seconds.samples` says how many. Each run
// waits for the processor's full speed, up to `patience` seconds since the run that last had it. Errors of preparing
// name the variant.
Result<std::vector<Timed>> time_side_by_side(const Network& network, std::span<const TensorDesc> descs,
                                             std::span<const Variant> variants, std::span<const HostTensor> inputs,
                                             int rounds, const std::function<bool()>& go_on = {},
                                             double patience = 0.25);

}  // namespace convoy::network
