// What the first network of a process on a GPU waits for, begun while its file is read. Both may be called in threads
// of their own; what fails is said where it is needed.
#pragma once

#include "convoy/device.h"

namespace convoy::cudnn {

// Loads cuDNN and asks its heuristics about a GPU that is described to it: 0.3 s, of which nothing needs the driver.
void load_ahead();

// Makes the device's context, asks for its properties and makes a handle: 0.2 s.
void open_ahead(const CudaDevice& device);

}  // namespace convoy::cudnn
