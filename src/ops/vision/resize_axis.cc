// Formulas: ONNX's operator specification and reference implementation of Resize.
#include "ops/vision/resize_axis.h"

#include <algorithm>
#include <cmath>

namespace convoy::ops {
namespace {

// Keys' cubic kernel.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace

double source_coordinate(const ResizeMethod& method, const ResizeAxis& axis, std::int64_t o) {
  const double x = static_cast<double>(o), in = static_cast<double>(axis.in);
  const double out = axis.scale * in;  // may differ from axis.out, which is whole
  switch (method.coordinates) {
    case Coordinates::align_corners:
      return axis.out == 1 || out == 1 ? 0 : x * (in - 1) / (out - 1);
    case Coordinates::asymmetric:
      return x / axis.scale;
    case Coordinates::tf_crop_and_resize: {
      const double length = axis.roi_end - axis.roi_begin;
      return axis.roi_begin * (in - 1) +
             (axis.out == 1 || out == 1 ? length * (in - 1) / 2 : x * length * (in - 1) / (out - 1));
    }
    case Coordinates::pytorch_half_pixel:
      return axis.out == 1 ? -0.5 : (x + 0.5) / axis.scale - 0.5;
    case Coordinates::half_pixel:
      return (x + 0.5) / axis.scale - 0.5;
    case Coordinates::half_pixel_symmetric:
      return in / 2 * (1 - static_cast<double>(axis.out) / out) + (x + 0.5) / axis.scale - 0.5;
    case Coordinates::tf_half_pixel_for_nn:
      return (x + 0.5) / axis.scale;
  }
  return 0;
}

bool is_extrapolated(const ResizeMethod& method, const ResizeAxis& axis, double coordinate) {
  return method.coordinates == Coordinates::tf_crop_and_resize &&
         !(coordinate >= 0 && coordinate <= static_cast<double>(axis.in - 1));
}

std::int64_t nearest_index(const ResizeMethod& method, const ResizeAxis& axis, double coordinate) {
  // Scales are f32: a third of 9 must be 3, not 2.9999999.
  const double x = static_cast<float>(coordinate);
  double index = 0;
  switch (method.nearest) {
    case NearestMode::round_prefer_floor:
      index = std::ceil(x - 0.5);
      break;
    case NearestMode::round_prefer_ceil:
      index = std::floor(x + 0.5);
      break;
    case NearestMode::floor:
      index = std::floor(x);
      break;
    case NearestMode::ceil:
      index = std::ceil(x);
      break;
    case NearestMode::simple:
      index = axis.scale < 1 ? std::ceil(x) : std::floor(x);
      break;
  }
  const double last = static_cast<double>(axis.in - 1);
  return static_cast<std::int64_t>(index > 0 ? std::min(index, last) : 0);  // NaN becomes 0
}

ResizeTaps resize_taps(const ResizeMethod& method, const ResizeAxis& axis) {
  const bool is_cubic = method.mode == ResizeMode::cubic;
  // Antialiasing widens the kernel to cover what falls together when shrinking.
  const double shrink = method.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (is_cubic ? 2 : 1) / shrink;
  const std::int64_t start = static_cast<std::int64_t>(std::floor(-radius)) + 1;
  ResizeTaps result;
  result.taps = 2 - 2 * start;
  result.index.resize(axis.out * result.taps);
  result.weight.resize(axis.out * result.taps);
  for (std::int64_t o = 0; o < axis.out; ++o) {
    std::int64_t* index = result.index.data() + o * result.taps;
    double* weight = result.weight.data() + o * result.taps;
    const double coordinate = source_coordinate(method, axis, o);
    if (is_extrapolated(method, axis, coordinate)) {
      result.extrapolated.resize(axis.out);
      result.extrapolated[o] = true;
      continue;
    }
    // Beyond these bounds every tap is the same edge anyway.
    const double reach = static_cast<double>(result.taps);
    const double x = std::clamp(std::isnan(coordinate) ? 0 : coordinate, -reach, static_cast<double>(axis.in) + reach);
    const double whole = std::floor(x);
    double sum = 0;
    for (std::int64_t t = 0; t < result.taps; ++t) {
      const std::int64_t at = static_cast<std::int64_t>(whole) + start + t;
      const double distance = (static_cast<double>(start + t) - (x - whole)) * shrink;
      const double value = is_cubic ? cubic(distance, method.cubic_a) : std::max(0.0, 1 - std::abs(distance));
      const bool outside = at < 0 || at >= axis.in;
      weight[t] = method.exclude_outside && outside ? 0 : value;
      index[t] = std::clamp<std::int64_t>(at, 0, axis.in - 1);
      sum += weight[t];
    }
    if ((method.exclude_outside || method.antialias) && sum != 0) {
      for (std::int64_t t = 0; t < result.taps; ++t) weight[t] /= sum;
    }
  }
  return result;
}

}  // namespace convoy::ops
