// Which plan of a network is fastest: by racing them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convoy/network_tuning.h"
#include "network/tune/side_by_side.h"

namespace convoy::network {

// What time_side_by_side() does; a test's may know what steps take.
using Race = std::function<decltype(time_side_by_side)>;

// convoy::choose_plan() with such races.
Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress, const Race& race);

}  // namespace convoy::network
