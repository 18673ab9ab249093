// How a tensor of pixels or voxels lies in row-major memory.
#pragma once

#include <functional>
#include <numeric>

#include "convoy/tensor.h"

namespace convoy::io {

// `items` of `channels` values at each of the points of `spatial` (H,W or D,H,W). Channels come before the points
// (NCHW) or after them (NHWC).
struct PixelMap {
  std::int64_t items = 1;
  std::int64_t channels = 1;
  Dims spatial;
  bool channels_last = false;

  std::int64_t points() const {
    return std::accumulate(spatial.begin(), spatial.end(), std::int64_t{1}, std::multiplies<>());
  }
  // From one channel of a point to the next, and from a point to the next, in elements.
  std::int64_t channel_step() const { return channels_last ? 1 : points(); }
  std::int64_t point_step() const { return channels_last ? channels : 1; }
  std::int64_t item_step() const { return channels * points(); }

  friend bool operator==(const PixelMap&, const PixelMap&) = default;
};

}  // namespace convoy::io
