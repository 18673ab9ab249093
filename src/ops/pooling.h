// What the pooling operators share: windows, the shape they give and the loops that visit them.
#pragma once

#include <array>

#include "ops/support.h"

namespace convoy::ops {

// The windows of one spatial dim: tap k of output o reads input o * stride + k * dilation - pad.
struct PoolAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1;
  std::int64_t pad = 0, pad_end = 0;

  std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
  // The taps of output o that read the input: [first, last).
  std::int64_t first_tap(std::int64_t o) const {
    const std::int64_t outside = pad - o * stride;
    return outside <= 0 ? 0 : std::min(kernel, (outside + dilation - 1) / dilation);
  }
  std::int64_t last_tap(std::int64_t o) const { return taps_before(o, in); }
  // Those that read the input or its padding (the last window of ceil_mode may reach beyond).
  std::int64_t padded_taps(std::int64_t o) const { return taps_before(o, in + pad_end); }

 private:
  std::int64_t taps_before(std::int64_t o, std::int64_t end) const {
    const std::int64_t room = end - 1 + pad - o * stride;  // from the first tap to the last one inside
    if (room >= extent() - 1) return kernel;
    return room < 0 ? 0 : room / dilation + 1;
  }
};

// Always three spatial dims: missing ones come first and are one wide.
struct PoolGeometry {
  std::array<PoolAxis, 3> axes;
  int spatial_dims = 0;
};

// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode (those the node has) for input dims
// N,C,(D),(H),W. A window that would start in the end padding is dropped, as ONNX says for ceil_mode from opset 22 and
// as PyTorch and ONNX Runtime always did.
Result<PoolGeometry> read_pooling(const NodeDesc& node, const Dims& dims);

// N, C and the output sizes.
Dims pooled_dims(const PoolGeometry& geometry, const Dims& dims);

// Strides of N, C, D, H, W: 0 for dims the tensor has not.
std::array<std::int64_t, 5> five_strides(const TensorDesc& desc);

// The plan of oneDNN's pooling, or null where it has no optimised one that computes the same.
enum class PoolKind { max, average_exclude_pad, average_include_pad };
std::unique_ptr<OpPlan> onednn_pooling(PoolKind kind, const PoolGeometry& geometry, const TensorDesc& x,
                                       const TensorDesc& y, int threads);

// y = op over the windows of x. Op has
//   using Acc;                                    the accumulator
//   Acc start() const;
//   Acc step(Acc acc, Compute<T> value) const;
//   T finish(Acc acc, std::int64_t inside, std::int64_t padded) const;   with the counts of taps
template <class T, class Op>
void pool(const PoolGeometry& geometry, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y,
          const Op& op, const ExecContext& context) {
  using Acc = typename Op::Acc;
  constexpr std::int64_t kLanes = 64;  // accumulators that stay in the first-level cache
  const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
  const std::array<std::int64_t, 5> xs = five_strides(x_desc), ys = five_strides(y_desc);
  const std::int64_t batch = x_desc.dims[0], channels = x_desc.dims[1];
  const std::int64_t taps =
      std::min(depth.kernel, depth.in) * std::min(height.kernel, height.in) * std::min(width.kernel, width.in);
  const auto for_rows = [&](std::int64_t od, std::int64_t oh, auto&& body) {  // body(offset of a row of the windows)
    for (std::int64_t kd = depth.first_tap(od); kd < depth.last_tap(od); ++kd) {
      const std::int64_t d = od * depth.stride + kd * depth.dilation - depth.pad;
      for (std::int64_t kh = height.first_tap(oh); kh < height.last_tap(oh); ++kh) {
        body(d * xs[2] + (oh * height.stride + kh * height.dilation - height.pad) * xs[3]);
      }
    }
  };
  const auto inside_rows = [&](std::int64_t od, std::int64_t oh) {
    return (depth.last_tap(od) - depth.first_tap(od)) * (height.last_tap(oh) - height.first_tap(oh));
  };
  const auto padded_rows = [&](std::int64_t od, std::int64_t oh) {
    return depth.padded_taps(od) * height.padded_taps(oh);
  };

  if (xs[1] == 1 && ys[1] == 1 && channels > 1) {  // lanes are channels
    parallel_for(context, batch * depth.out * height.out * width.out, channels * taps,
                 [&](std::int64_t begin, std::int64_t end) {
                   Acc acc[kLanes];
                   for (std::int64_t unit = begin; unit < end; ++unit) {
                     const std::int64_t ow = unit % width.out, oh = unit / width.out % height.out;
                     const std::int64_t od = unit / (width.out * height.out) % depth.out;
                     const std::int64_t n = unit / (width.out * height.out * depth.out);
                     const std::int64_t first = width.first_tap(ow), last = width.last_tap(ow);
                     const std::int64_t inside = inside_rows(od, oh) * std::max<std::int64_t>(0, last - first);
                     const std::int64_t padded = padded_rows(od, oh) * width.padded_taps(ow);
                     T* to = y + n * ys[0] + od * ys[2] + oh * ys[3] + ow * ys[4];
                     for (std::int64_t c0 = 0; c0 < channels; c0 += kLanes) {
                       const std::int64_t lanes = std::min(kLanes, channels - c0);
                       std::fill_n(acc, lanes, op.start());
                       for_rows(od, oh, [&](std::int64_t row) {
                         for (std::int64_t kw = first; kw < last; ++kw) {
                           const T* from =
                               x + n * xs[0] + c0 + row + (ow * width.stride + kw * width.dilation - width.pad) * xs[4];
                           for (std::int64_t i = 0; i < lanes; ++i)
                             acc[i] = op.step(acc[i], static_cast<Compute<T>>(from[i]));
                         }
                       });
                       for (std::int64_t i = 0; i < lanes; ++i) to[c0 + i] = op.finish(acc[i], inside, padded);
                     }
                   }
                 });
    return;
  }
  // Lanes are outputs along the width.
  parallel_for(
      context, batch * channels * depth.out * height.out, width.out * taps, [&](std::int64_t begin, std::int64_t end) {
        Acc acc[kLanes];
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t oh = unit % height.out, od = unit / height.out % depth.out;
          const std::int64_t c = unit / (height.out * depth.out) % channels;
          const std::int64_t n = unit / (height.out * depth.out * channels);
          const std::int64_t inside = inside_rows(od, oh), padded = padded_rows(od, oh);
          T* to = y + n * ys[0] + c * ys[1] + od * ys[2] + oh * ys[3];
          for (std::int64_t w0 = 0; w0 < width.out; w0 += kLanes) {
            const std::int64_t w1 = std::min(width.out, w0 + kLanes);
            std::fill_n(acc, w1 - w0, op.start());
            for_rows(od, oh, [&](std::int64_t row) {
              const T* from = x + n * xs[0] + c * xs[1] + row;
              for (std::int64_t kw = width.first_tap(w1 - 1); kw < width.last_tap(w0); ++kw) {
                const std::int64_t shift = kw * width.dilation - width.pad;
                // Outputs for which this tap is inside.
                const std::int64_t lo = shift >= 0 ? w0 : std::max(w0, (-shift + width.stride - 1) / width.stride);
                const std::int64_t hi =
                    shift >= width.in ? w0 : std::min(w1, (width.in - 1 - shift) / width.stride + 1);
                const auto line = [&](std::int64_t stride) {
                  for (std::int64_t o = lo; o < hi; ++o) {
                    acc[o - w0] = op.step(acc[o - w0], static_cast<Compute<T>>(from[(o * stride + shift) * xs[4]]));
                  }
                };
                if (xs[4] == 1 && width.stride == 1) {
                  const T* at = from + shift;
                  for (std::int64_t o = lo; o < hi; ++o) {
                    acc[o - w0] = op.step(acc[o - w0], static_cast<Compute<T>>(at[o]));
                  }
                } else if (xs[4] == 1 && width.stride == 2) {
                  const T* at = from + shift;
                  for (std::int64_t o = lo; o < hi; ++o) {
                    acc[o - w0] = op.step(acc[o - w0], static_cast<Compute<T>>(at[o * 2]));
                  }
                } else {
                  line(width.stride);
                }
              }
            });
            for (std::int64_t o = w0; o < w1; ++o) {
              to[o * ys[4]] =
                  op.finish(acc[o - w0], inside * std::max<std::int64_t>(0, width.last_tap(o) - width.first_tap(o)),
                            padded * width.padded_taps(o));
            }
          }
        }
      });
}

}  // namespace convoy::ops
