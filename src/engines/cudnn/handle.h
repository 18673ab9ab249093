// Handles: one for each thread and device, made when it is first needed, as cuDNN asks.
#pragma once

#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// The calling thread's handle on a device, whose context is made current. A thread that ends leaves its handles to
// threads to come; none is destroyed, since the driver may be gone by the time the last thread ends.
Result<cudnnHandle_t> thread_handle(const Api& api, int ordinal);

}  // namespace convoy::cudnn
