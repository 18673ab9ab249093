// For tests of kernels without a GPU: data-centre GPUs as they describe themselves, and problems by their strings.
#pragma once

#include "convoy/engine.h"
#include "engines/testing/problem_of.h"

namespace convoy::cuda::testing {

// An A100, H100 or B200: 80, 90 or 100.
inline CudaDevice device_of(int architecture) {
  CudaDevice device;
  device.architecture = architecture;
  device.sm_count = architecture == 80 ? 108 : architecture == 90 ? 132 : 148;
  device.shared_bytes_per_block = architecture == 80 ? 166912 : 232448;
  device.shared_bytes_per_sm = architecture == 80 ? 167936 : 233472;
  device.registers_per_sm = 65536;
  device.threads_per_sm = 2048;
  return device;
}

using convoy::testing::problem_of;

}  // namespace convoy::cuda::testing
