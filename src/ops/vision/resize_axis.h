// Resize, one axis at a time: which inputs an output reads and with which weights.
#pragma once

#include <vector>

#include "ops/support.h"

namespace convoy::ops {

enum class ResizeMode { nearest, linear, cubic };
enum class Coordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
enum class NearestMode { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };  // simple: Resize of opset 10

struct ResizeMethod {
  ResizeMode mode = ResizeMode::nearest;
  Coordinates coordinates = Coordinates::asymmetric;
  NearestMode nearest = NearestMode::floor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
};

struct ResizeAxis {
  std::int64_t in = 1, out = 1;
  double scale = 1;                   // out / in, but for roundings
  double roi_begin = 0, roi_end = 1;  // of tf_crop_and_resize

  bool is_identity(const ResizeMethod& method) const {
    return in == out && scale == 1 && method.coordinates != Coordinates::tf_crop_and_resize &&
           method.coordinates != Coordinates::tf_half_pixel_for_nn;
  }
};

// The place in the input of output o, in input elements.
double source_coordinate(const ResizeMethod& method, const ResizeAxis& axis, std::int64_t o);
// Whether tf_crop_and_resize gives the extrapolation value there.
bool is_extrapolated(const ResizeMethod& method, const ResizeAxis& axis, double coordinate);
// The input that mode nearest takes, in [0, in).
std::int64_t nearest_index(const ResizeMethod& method, const ResizeAxis& axis, double coordinate);

// Weights of the modes linear and cubic. Output o is the sum over t < taps of weight[o * taps + t] times input
// index[o * taps + t]; extrapolated outputs have weights of zero and are listed.
struct ResizeTaps {
  std::int64_t taps = 0;
  std::vector<std::int64_t> index;
  std::vector<double> weight;
  std::vector<bool> extrapolated;  // empty: none
};
ResizeTaps resize_taps(const ResizeMethod& method, const ResizeAxis& axis);

// What a node asks for: how, and an axis a dim.
struct ResizeRequest {
  ResizeMethod method;
  std::vector<ResizeAxis> axes;
};
Result<ResizeRequest> resize_request(const NodeDesc& node, std::span<const Input> inputs);

}  // namespace convoy::ops
