// What devices reach, for predictions: measured on one H200, guessed for others by their memory.
#pragma once

#include <algorithm>

#include "convoy/device.h"

namespace convoy::cuda {

// Of a copy, bytes read and written. An H200's 132 SMs: 4 TB/s.
inline double memory_bytes_per_second(const CudaDevice& device) {
  const double per_sm = device.architecture >= 90 ? 30e9 : device.architecture == 80 ? 17e9 : 8e9;
  return per_sm * std::max(device.sm_count, 1);
}

}  // namespace convoy::cuda
