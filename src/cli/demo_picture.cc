#include "cli/demo_picture.h"

#include <algorithm>
#include <cmath>

namespace convoy::cli {

io::Picture demo_picture(int width, int height) {
  io::Picture picture{width, height, {}};
  picture.rgb.reserve(static_cast<std::size_t>(width) * height * 3);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double x = (column + 0.5) / width * 2 - 1, y = (row + 0.5) / height * 2 - 1;
      const double sky = 0.55 - 0.35 * y;
      const double radius = std::hypot(x - 0.25, y + 0.15);
      const double rings = 0.5 + 0.5 * std::cos(40 * radius);
      const double disc = 1 / (1 + std::exp(60 * (radius - 0.55)));
      const double stripes = y > 0.55 ? 0.25 * (0.5 + 0.5 * std::sin(30 * x + 12 * y)) : 0;
      const double colour[3] = {sky * 0.7 + disc * (0.9 * rings - 0.2) + stripes,
                                sky * 0.8 + disc * (0.35 - 0.5 * rings) + stripes * 0.8,
                                sky + disc * (0.1 - 0.6 * (1 - rings)) - stripes * 0.5};
      for (const double value : colour) {
        picture.rgb.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 1.0) * 255 + 0.5));
      }
    }
  }
  return picture;
}

}  // namespace convoy::cli
