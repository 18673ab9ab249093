// Failed driver calls as errors: "cuMemAlloc for the workspace: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
//   out_of_memory     the device's memory; device.h's allocations add needed and free
//   device_failed     the device is lost for this process, by a kernel that went wrong or a fault of the hardware:
//   every
//                     further call on it fails the same way, the process lives on
//   unsupported       no such device, or nothing there that can run this code
//   invalid_argument  the arguments are wrong, often a pointer that is not the device's
//   internal          anything else
#pragma once

#include <string_view>

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

// `call` is the driver's name of what failed, `purpose` what it was for: "the workspace of cudnn.eng0". Loses nothing
// that the driver says; works without a driver too.
Error driver_error(CUresult status, std::string_view call, std::string_view purpose);

inline Result<void> check(CUresult status, std::string_view call, std::string_view purpose) {
  if (status == CUDA_SUCCESS) return {};
  return driver_error(status, call, purpose);
}

// Whether a device takes no more calls of this process after this error.
bool loses_device(CUresult status);

}  // namespace convoy::cuda
