// Channels-last tensors with room behind each pixel's channels, as slices of the channels of others have it.
#pragma once

#include <optional>

#include "convoy/tensor.h"

namespace convoy {

// Elements from a pixel to the next where the channels of a pixel lie side by side and pixels follow one another at one
// distance: the channels' count where the tensor is packed. Nothing where they don't, or the rank is below 3.
std::optional<std::int64_t> pixel_stride(const TensorDesc& desc);

}  // namespace convoy
