// A device as cuDNN is told of it.
#pragma once

#include <string>

#include "convoy/device.h"
#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// The form in which cuDNN writes device properties into the JSON of its plans. What CudaDevice does not hold is the
// same on every architecture that Convoy knows (threads of a block, size of grids), or only feeds cuDNN's heuristics
// (clocks).
std::string properties_json(const CudaDevice& device);

// Finalised. Asked from the device itself where this process sees it (with the number of SMs that `device` has), else
// from its description.
Descriptor device_properties(const Api& api, const CudaDevice& device);

}  // namespace convoy::cudnn
