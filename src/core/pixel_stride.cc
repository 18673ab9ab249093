#include "core/pixel_stride.h"

namespace convoy {

std::optional<std::int64_t> pixel_stride(const TensorDesc& desc) {
  if (desc.rank() < 3 || desc.channel_block > 1 || (desc.dims[1] > 1 && desc.strides[1] != 1)) return std::nullopt;
  std::int64_t pixel = 0, pixels = 1;  // 0: there is one pixel so far
  const auto follow = [&](int dim) {
    const std::int64_t size = desc.dims[dim], stride = desc.strides[dim];
    if (size <= 1) return true;
    if (pixel == 0) pixel = stride;
    const bool follows = stride == pixel * pixels;
    pixels *= size;
    return follows;
  };
  for (int dim = desc.rank() - 1; dim >= 2; --dim) {
    if (!follow(dim)) return std::nullopt;
  }
  if (!follow(0)) return std::nullopt;
  if (pixel == 0) return desc.dims[1];
  return pixel >= desc.dims[1] ? std::optional(pixel) : std::nullopt;
}

}  // namespace convoy
