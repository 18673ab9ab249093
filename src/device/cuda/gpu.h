// The GPUs of this machine as devices (device/device.h).
#pragma once

#include "device/device.h"

namespace convoy::cuda {

// With an ordinal below kMostDevices. Whether there is such a GPU comes out when it is used.
const Device& gpu(int ordinal);

}  // namespace convoy::cuda
