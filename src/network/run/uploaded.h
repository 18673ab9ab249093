// Constants on a device other than the processor, each held there once: sessions of one network, or of several sizes of
// it, read the same weights.
#pragma once

#include "convoy/host_tensor.h"
#include "device/device.h"

namespace convoy::network {

// The bytes of `constant` there: what somebody holds already that is the same, byte for byte, else a new copy. They
// live until the last holder lets them go; nobody writes to them. `queue` is of the device, entered, and has done its
// work when this returns. Any number of threads at once.
Result<Buffer> uploaded(const Device& device, Queue& queue, const HostTensor& constant);

}  // namespace convoy::network
