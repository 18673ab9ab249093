// The GPU that tests describe to cuDNN, which answers for it without one.
#pragma once

#include <string>

#include "convoy/device.h"
#include "engines/cudnn/properties.h"

namespace convoy::cudnn {

inline CudaDevice described_h200() {
  CudaDevice device;
  device.name = "NVIDIA H200";
  device.architecture = 90;
  device.sm_count = 132;
  device.memory_bytes = 150109880320;
  device.l2_bytes = 62914560;
  device.shared_bytes_per_block = 232448;
  device.shared_bytes_per_sm = 233472;
  device.registers_per_sm = 65536;
  device.threads_per_sm = 2048;
  device.driver_version = 13000;
  return device;
}

// Why cuDNN can't be asked about it here: 9.28 has a part that needs the driver's library. Empty: it can, or there is
// another reason.
inline std::string wants_driver(const Api& api) {
  const DeviceProperties described = device_properties(api, described_h200());
  const bool ok = described.descriptor.ok();
  return !ok && described.descriptor.failure().status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED ? described.why_not
                                                                                                : "";
}

inline PlanRequest on(const CudaDevice& device) {
  PlanRequest request;
  request.cuda = device;
  return request;
}

}  // namespace convoy::cudnn
