// A depthwise problem as its kernels see it: three spatial dims, an input and an output tensor, and gathers wherever
// possible (a dgrad without strides is a convolution with the filter turned round).
#pragma once

#include <array>
#include <cstdint>

#include "convoy/convolution.h"

namespace convoy::cuda {

struct DepthwiseAxis {
  std::int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1;
  std::int64_t pad = 0;  // may be negative
};

struct DepthwiseShape {
  Pass pass = Pass::fprop;
  DataType type = DataType::f32;
  std::array<DepthwiseAxis, 3> axes;  // D, H, W; wgrad's are those of fprop
  bool transposed = false;            // a dgrad with strides
  bool flipped = false;
  std::int64_t batch = 1;
  std::int64_t in_channels = 1, out_channels = 1;  // wgrad: of x and y
  std::int64_t multiplier = 1;                     // output channels that read one input channel
  std::int64_t fan_in = 1;                         // input channels that add up in one output channel
  std::array<std::int64_t, 5> in_strides{}, out_strides{}, w_strides{};  // N, C, D, H, W; in elements
  std::int64_t alignment = 64;                                           // of in, out and z, in bytes
  bool filters_packed = true;                                            // a filter's taps follow one another
  bool in_order = true;  // neither out (wgrad: nor dy) nor in has gaps or permuted dims: both packed NCHW

  std::int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int element_bytes() const { return type == DataType::f32 ? 4 : 2; }
  bool channels_innermost() const {
    return (in_strides[1] == 1 || in_channels == 1) && (out_strides[1] == 1 || out_channels == 1);
  }
  // NHWC or NWC in whole, aligned vectors of 8 channels of 16 bits, a filter each.
  bool channels_in_eights() const;
  bool volumetric() const { return axes[0].in > 1 || axes[0].out > 1 || axes[0].taps > 1; }
  std::int64_t outputs() const { return batch * out_channels * axes[0].out * axes[1].out * axes[2].out; }
  std::int64_t inputs() const { return batch * in_channels * axes[0].in * axes[1].in * axes[2].in; }
  // What a kernel for tiles needs: wgrad's shares are added to filters in their packed order.
  bool adds_up() const { return pass != Pass::wgrad || filters_packed; }
};
inline std::int64_t plane_taps(const DepthwiseShape& shape) { return shape.axes[1].taps * shape.axes[2].taps; }
inline bool wgrad(const DepthwiseShape& shape) { return shape.pass == Pass::wgrad; }

// Precondition: groups == x's channels, no blocked tensors, no tensor without elements.
DepthwiseShape depthwise_shape(const ConvProblem& problem);

}  // namespace convoy::cuda
