// From a network's output to a picture.
#pragma once

#include <optional>

#include "convoy/host_tensor.h"
#include "io/picture.h"
#include "io/pixel_map.h"

namespace convoy::io {

// The values that stand for black and for white (0 and 255 in a picture).
struct ValueRange {
  double black = 0;
  double white = 1;
};

// What values between `low` and `high` are most likely meant as: 0 to 255 for integers and where some are over 2; -1 to
// 1 where some are under -0.25; else 0 to 1 (networks overshoot a little).
ValueRange guess_range(DataType type, double low, double high);

// One item of a map with two spatial dims and 1 (grey) or 3 (red, green, blue) channels. What lies outside the range is
// clipped; what is not a number becomes black.
Result<Picture> tensor_to_picture(const HostTensor& tensor, const PixelMap& map, std::int64_t item, ValueRange range);

// Labels (integers, H x W of them from element `first` on) in colours. 0 is black; the others have the colours that
// PASCAL VOC's label maps have, which repeat after 256. Negative labels are white.
Result<Picture> label_picture(const HostTensor& labels, std::int64_t first, std::int64_t height, std::int64_t width);

// `brightness` (a grey picture) with the colours of `colours`, resized to its size: the Y of one and the Cb and Cr of
// the other, as JPEG defines them (ITU-R BT.601, full range).
Picture with_colours_of(const Picture& brightness, const Picture& colours);

}  // namespace convoy::io
