// The kernels of src/engines/cuda/kernels, embedded when Convoy is built: what NVRTC reads at run time.
#pragma once

#include <span>
#include <string_view>

namespace convoy::cuda {

struct KernelSource {
  const char* name;  // "depthwise_nhwc.cu"
  const char* text;
};

std::span<const KernelSource> kernel_sources();

}  // namespace convoy::cuda
