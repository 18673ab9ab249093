// kernels/axis.cuh's arithmetic on the host: how many tiles an axis has and how much input one sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engines/cuda/depthwise/shape.h"

namespace convoy::cuda {

struct TileAxis {
  DepthwiseAxis axis;
  std::int64_t tile = 1;
  bool transposed = false;

  std::int64_t start() const { return transposed ? -(axis.pad % axis.stride) : 0; }
  std::int64_t tiles() const { return (axis.out - start() + tile - 1) / tile; }
  bool sparse() const { return !transposed && axis.dilation > (tile - 1) * axis.stride; }
  std::int64_t reach() const {  // inputs from a tile's first to its last, gaps included
    const std::int64_t taps = (axis.taps - 1) * axis.dilation;
    return transposed ? (tile - 1) / axis.stride + taps / axis.stride + 1 : (tile - 1) * axis.stride + taps + 1;
  }
  std::int64_t span() const { return sparse() ? tile * axis.taps : reach(); }  // inputs that are met
  std::int64_t step() const { return transposed ? tile / axis.stride : tile * axis.stride; }
};

struct Tiling {
  TileAxis h, w;
};
inline Tiling tiling_of(const DepthwiseShape& shape, std::int64_t rows, std::int64_t columns) {
  return {{shape.axes[1], rows, shape.transposed}, {shape.axes[2], columns, shape.transposed}};
}

}  // namespace convoy::cuda
