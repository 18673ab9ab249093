#include "engines/cuda/depthwise/shape.h"

#include <algorithm>

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostWholeSignal = 48 * 1024;  // bytes of a channel's in and out in a block's shared memory

std::array<std::int64_t, 5> strides_of(const TensorDesc& desc) {
  std::array<std::int64_t, 5> strides{};
  const int missing = 3 - desc.spatial_dims();
  for (int i = 0; i < 5; ++i) {
    if (i < 2) strides[i] = desc.strides[i];
    if (i >= 2 + missing) strides[i] = desc.strides[i - missing];
  }
  return strides;
}

}  // namespace

bool DepthwiseShape::channels_in_eights() const {
  if (element_bytes() != 2 || !channels_innermost() || out_channels % 8 != 0 || alignment % 16 != 0) return false;
  const auto whole = [&](int dim) { return in_strides[dim] % 8 == 0 && out_strides[dim] % 8 == 0; };
  return multiplier == 1 && fan_in == 1 && whole(0) && whole(3) && whole(4);
}

DepthwiseShape depthwise_shape(const ConvProblem& problem) {
  DepthwiseShape shape;
  shape.pass = problem.pass;
  shape.type = problem.x.type;
  shape.batch = problem.batch();
  shape.flipped = problem.mode == ConvMode::convolution;
  const bool dgrad = problem.pass == Pass::dgrad;
  const TensorDesc& in = dgrad ? problem.y : problem.x;
  const TensorDesc& out = dgrad ? problem.x : problem.y;
  shape.in_channels = in.dims[1];
  shape.out_channels = out.dims[1];
  const std::int64_t multiplier = problem.out_channels() / problem.in_channels();
  (dgrad ? shape.fan_in : shape.multiplier) = multiplier;
  shape.in_strides = strides_of(in);
  shape.out_strides = strides_of(out);
  shape.w_strides = strides_of(problem.w);
  shape.alignment = std::min(in.alignment, out.alignment);
  shape.in_order = in.is_packed(Layout::nchw) && out.is_packed(Layout::nchw);

  const int rank = problem.spatial_dims();
  const bool strided = std::any_of(problem.stride.begin(), problem.stride.end(), [](auto s) { return s > 1; });
  shape.transposed = dgrad && strided;
  if (dgrad && !strided) shape.flipped = !shape.flipped;
  for (int i = 0; i < rank; ++i) {
    DepthwiseAxis& axis = shape.axes[3 - rank + i];
    axis.in = in.dims[2 + i];
    axis.out = out.dims[2 + i];
    axis.taps = problem.w.dims[2 + i];
    axis.stride = problem.stride[i];
    axis.dilation = problem.dilation[i];
    axis.pad = problem.pre_padding[i];
    if (dgrad && !strided) axis.pad = axis.dilation * (axis.taps - 1) - axis.pad;
  }
  const auto& w = shape.w_strides;
  const auto& a = shape.axes;
  shape.filters_packed = (a[2].taps == 1 || w[4] == 1) && (a[1].taps == 1 || w[3] == a[2].taps) &&
                         (a[0].taps == 1 || w[2] == a[1].taps * a[2].taps);
  // Kernels that walk along H serve long filters of signals too, and those that cut planes into strips of rows long
  // signals.
  const bool signal = a[1].in == 1 && a[1].out == 1 && a[1].taps == 1;
  const bool long_filter = a[2].taps >= 16 && shape.channels_innermost();
  const bool long_signal =
      a[2].taps < 8 && shape.in_order && (a[2].in + a[2].out) * shape.element_bytes() > kMostWholeSignal;
  if (signal && (long_filter || long_signal)) {
    std::swap(shape.axes[1], shape.axes[2]);
    std::swap(shape.in_strides[3], shape.in_strides[4]);
    std::swap(shape.out_strides[3], shape.out_strides[4]);
    std::swap(shape.w_strides[3], shape.w_strides[4]);
  }
  return shape;
}

}  // namespace convoy::cuda
