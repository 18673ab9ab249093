#include "io/picture_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "io/picture_input.h"

namespace convoy::io {
namespace {

std::uint8_t to_byte(double value) {
  return std::isnan(value) ? 0 : static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
}

// The bits of the label, dealt to red, green and blue in turn, the lowest ones to the highest bits of the colour.
std::array<std::uint8_t, 3> label_colour(std::int64_t label) {
  std::array<std::uint8_t, 3> colour = {};
  if (label < 0) return {255, 255, 255};
  for (int bit = 0; bit < 8; ++bit) {
    if ((label >> bit & 1) != 0) colour[bit % 3] |= static_cast<std::uint8_t>(0x80 >> bit / 3);
  }
  return colour;
}

Result<Picture> blank(std::int64_t height, std::int64_t width) {
  return allocate_picture(width, height, static_cast<std::size_t>(kMaxPicturePixels), 3);
}

}  // namespace

ValueRange guess_range(DataType type, double low, double high) {
  if (!is_floating(type) || high > 2) return {0, 255};
  if (low < -0.25) return {-1, 1};
  return {0, 1};
}

Result<Picture> tensor_to_picture(const HostTensor& tensor, const PixelMap& map, std::int64_t item, ValueRange range) {
  if (map.spatial.size() != 2 || (map.channels != 1 && map.channels != 3)) {
    return Error{ErrorCode::invalid_argument, fmt::format("{} is no picture", to_string(tensor.desc.dims))};
  }
  CONVOY_TRY(Picture picture, blank(map.spatial[0], map.spatial[1]));
  const double scale = 255 / (range.white - range.black);
  for (std::int64_t c = 0; c < 3; ++c) {
    const std::int64_t first = item * map.item_step() + (map.channels == 1 ? 0 : c) * map.channel_step();
    for (std::int64_t i = 0; i < map.points(); ++i) {
      const double v = load_as_double(tensor.desc.type, tensor.data.get(), first + i * map.point_step());
      picture.rgb[i * 3 + c] = to_byte((v - range.black) * scale);
    }
  }
  return picture;
}

Result<Picture> label_picture(const HostTensor& labels, std::int64_t first, std::int64_t height, std::int64_t width) {
  CONVOY_TRY(Picture picture, blank(height, width));
  for (std::int64_t i = 0; i < height * width; ++i) {
    const double label = load_as_double(labels.desc.type, labels.data.get(), first + i);
    const auto colour = label_colour(static_cast<std::int64_t>(label));
    std::copy(colour.begin(), colour.end(), picture.rgb.begin() + i * 3);
  }
  return picture;
}

Picture with_colours_of(const Picture& brightness, const Picture& colours) {
  Picture out = resize_bilinear(colours, brightness.width, brightness.height);
  for (std::size_t i = 0; i < out.rgb.size(); i += 3) {
    std::uint16_t* p = &out.rgb[i];
    const double old = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
    // Cb and Cr are differences from Y: with another Y and the same differences, every channel moves as Y does.
    const double change = brightness.rgb[i] - old;
    for (int c = 0; c < 3; ++c) p[c] = to_byte(p[c] + change);
  }
  return out;
}

}  // namespace convoy::io
