// cuDNN's engine configurations, as the program's heuristics give them and as they are made here.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/convolution.h"
#include "engines/cudnn/descriptor.h"
#include "interposer/recorder.h"
#include "interposer/snapshot.h"

namespace convoy::interposer {

// "9.19.0", of the program's cuDNN.
std::string cudnn_version();

// A heuristic's mode: "instant", "A", "fallback".
std::string mode_of(const Snapshot& heuristic);

// What a configuration is; an empty engine where it can't be read. `problem` may be null: then no hidden notes are
// known.
EngineConfig engine_config_of(cudnnBackendDescriptor_t configuration, const ConvProblem* problem);

// As the choice file writes it: knobs left to cuDNN are offered as -1, or not at all.
Candidate without_automatic(Candidate candidate);
// Whether it is of that engine and has all knobs that `wanted` names, with these values.
bool fits(const Candidate& candidate, const Candidate& wanted);

// cuDNN's bytes of workspace; 0 where it doesn't say.
std::int64_t workspace_of(cudnnBackendDescriptor_t configuration);

// What own configurations are for.
struct GraphTarget {
  cudnnBackendDescriptor_t graph = nullptr;
  cudnnBackendDescriptor_t device_properties = nullptr;  // null: the device that the program works on
  std::optional<std::int32_t> sm_count;
};

// The descriptors that a configuration refers to: they must live as long as it does.
using Parts = std::shared_ptr<std::vector<cudnn::Descriptor>>;

// Fills `configuration`, which nobody has filled yet, and finalizes it. Error: what cuDNN said, or that the candidate
// is none of the graph API's.
Result<Parts> configure(cudnnBackendDescriptor_t configuration, const GraphTarget& target, const Candidate& candidate);

}  // namespace convoy::interposer
