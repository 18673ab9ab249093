// GridSample's attributes, and the arithmetic of its coordinates, of numbers or of what kernels are written with.
#pragma once

#include "ops/support.h"

namespace convoy::ops {

struct GridSampling {
  enum class Mode { nearest, linear, cubic };
  enum class Padding { zeros, border, reflection };
  Mode mode = Mode::linear;
  Padding padding = Padding::zeros;
  bool align_corners = false;

  static constexpr double kCubic = -0.75;  // of the cubic's weights
  // Farther out everything is padding alike, and indices could not hold it.
  static constexpr double kFar = 1e12;

  std::int64_t taps() const { return mode == Mode::nearest ? 1 : mode == Mode::linear ? 2 : 4; }
  // The coordinates between which a dim has elements.
  double low() const { return align_corners ? 0 : -0.5; }
  double high(double size) const { return align_corners ? size - 1 : size - 0.5; }
  // Where [-1, 1] of the grid is along a dim.
  template <class Value>
  Value coordinate(const Value& normalized, double size) const {
    return align_corners ? (normalized + 1.0) / 2.0 * (size - 1) : ((normalized + 1.0) * size - 1.0) / 2.0;
  }
};

Result<GridSampling> grid_sampling(const NodeDesc& node);

}  // namespace convoy::ops
