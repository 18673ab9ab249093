// A ConvProblem as kernels read it: plain numbers, always three spatial dims (D, H, W; the leading ones of a 1D or 2D
// problem have size 1, stride and dilation 1, no padding and stride 0 in memory). Strides are in elements.
#pragma once

#include <cstdint>

namespace convoy::cpu {

// For b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// Element (n, c, d, h, w) of an activation tensor lies at
//   n*batch + (c / block)*channel + c % block + d*spatial[0] + h*spatial[1] + w*spatial[2]
struct ActivationView {
  std::int64_t batch;
  std::int64_t channel;
  std::int64_t spatial[3];
  std::int64_t block;  // 1, 8 or 16
};

// Element (k, c, d, h, w) of the weights lies at k*out + c*in + d*spatial[0] + ...; strides of flipped filters
// (mode=convolution) are already negative, with `origin` the offset of tap (0, 0, 0).
struct WeightView {
  std::int64_t origin;
  std::int64_t out;
  std::int64_t in;
  std::int64_t spatial[3];
};

struct ConvGeometry {
  std::int64_t batch;
  std::int64_t groups;
  std::int64_t channels;        // C, all groups
  std::int64_t filters;         // K, all groups
  std::int64_t group_channels;  // C/groups
  std::int64_t group_filters;   // K/groups
  std::int64_t x_size[3];
  std::int64_t y_size[3];
  std::int64_t filter[3];
  std::int64_t stride[3];
  std::int64_t dilation[3];
  std::int64_t pre[3];
  std::int64_t post[3];
  std::int64_t taps;  // product of filter
  ActivationView x;
  ActivationView y;
  WeightView w;
};

}  // namespace convoy::cpu
