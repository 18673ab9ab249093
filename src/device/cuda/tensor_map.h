// Tensors as the copy engine (TMA) is told of them, from sm_90 on: what kernels take as a const __grid_constant__
// parameter. Dims are in the order of their strides, innermost first.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

struct TensorMapSource {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const void* data = nullptr;          // a multiple of 16
  std::vector<std::uint64_t> sizes;    // 2 to 5; for im2col C, spatial.., N
  std::vector<std::uint64_t> strides;  // in bytes, of all dims but the first: multiples of 16
  std::vector<std::uint32_t> steps;    // from element to element; empty: 1 in each dim
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;  // what the L2 cache fetches at once
};

// Boxes of so many elements. Elements outside of the tensor are read as zeros.
Result<CUtensorMap> tiled_map(const TensorMapSource& source, const std::vector<std::uint32_t>& box);

// Boxes of `channels` by `pixels`, which follow each other from `lower` to the spatial sizes plus `upper`.
Result<CUtensorMap> im2col_map(const TensorMapSource& source, const std::vector<int>& lower,
                               const std::vector<int>& upper, std::uint32_t channels, std::uint32_t pixels);

}  // namespace convoy::cuda
