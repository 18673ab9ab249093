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

struct DeviceProperties {
  Descriptor descriptor;  // finalised
  bool own = false;       // asked from the device itself, where this process sees it; else it is as described
  std::string why_not;    // cuDNN takes none
};

// Why cuDNN takes no device of these properties: the one that it wants and nobody gave, the part of cuDNN that can't be
// loaded (9.28 has one that needs the driver), else its own words. Precondition: it takes none.
std::string why_not_described(const Api& api, const std::string& json, const Failure& failure);

// A device of a negative ordinal is only described. Plans that cuDNN makes for a described device may be slower than
// for the device itself, even if the description is its own.
DeviceProperties device_properties(const Api& api, const CudaDevice& device);

// The same, kept for the life of the process: asking a device takes longer than asking cuDNN's heuristics. Makes the
// device current, if it is its own.
const DeviceProperties& known_properties(const Api& api, const CudaDevice& device);

}  // namespace convoy::cudnn
