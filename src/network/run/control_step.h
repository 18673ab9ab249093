// If and Loop where their conditions are known only when they run (docs/running.md). Where sizes decide, the pass
// control_flow has put the body's nodes in their place.
#pragma once

#include "network/run/dynamic_step.h"

namespace convoy::network {

// The bodies are made ready here, once; what in them depends on shapes is planned when they are known, and kept.
// `constants`: of the inputs that never change; null: of others.
Result<std::unique_ptr<DynamicStep>> make_control_step(const Node& node, std::span<const HostTensor* const> constants,
                                                       const PrepareSettings& settings);

}  // namespace convoy::network
