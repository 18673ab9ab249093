// The engine table by kind of device.
#pragma once

#include <vector>

#include "convoy/engine.h"

namespace convoy {

// The rows of all_engines() that run on this kind of device, in its order.
const std::vector<const Engine*>& engines_on(DeviceKind kind);

}  // namespace convoy
