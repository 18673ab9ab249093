// What the pooling operators share: windows, the shape they give and the loops that visit them.
#pragma once

#include <array>
#include <vector>

#include "ops/rows.h"
#include "ops/rows_avx2.h"
#include "ops/support.h"

namespace convoy::ops {

// What to do where a node has more spatial dims than there are (docs/onnx.md).
inline constexpr std::string_view kFourSpatialDims =
    "reshape a dim along which the window is 1 wide into the batch, or add up what 3 dims give for each tap along the "
    "fourth";

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

// Whether our loops by vectors (rows_avx2.h) are as fast as oneDNN's or faster: the channels of a position are a row of
// vectors, and few windows read the same element, so that the memory decides.
bool suits_channel_rows(const PoolGeometry& geometry, const TensorDesc& x, const TensorDesc& y);

// The plan of oneDNN's pooling, or null where it has no optimised one that computes the same.
enum class PoolKind { max, average_exclude_pad, average_include_pad };
std::unique_ptr<OpPlan> onednn_pooling(PoolKind kind, const PoolGeometry& geometry, const TensorDesc& x,
                                       const TensorDesc& y, int threads);

// Outputs whose windows have the same taps: positions along the width, or the channels of such positions.
//   y[p * y_step + i * y_stride] is what the windows' operator gives for taps[k][p * step + i * stride], k in order;
//   i in [0, count), p in [0, positions).
template <class T>
struct PoolRow {
  std::span<const void* const> taps;  // of T
  std::int64_t stride, count;
  T* y;
  std::int64_t y_stride;
  std::int64_t inside, padded;  // how many taps read the input; how many read it or its padding
  std::int64_t positions = 1, step = 0, y_step = 0;
};

// Outputs along a row that have the same taps, `begin` to `end`.
struct PoolRun {
  std::int64_t begin, end;
};
inline std::vector<PoolRun> runs_of(const PoolAxis& width) {
  std::vector<PoolRun> runs;
  for (std::int64_t o = 0; o < width.out; ++o) {
    const bool same = o > 0 && width.first_tap(o) == width.first_tap(o - 1) &&
                      width.last_tap(o) == width.last_tap(o - 1) && width.padded_taps(o) == width.padded_taps(o - 1);
    if (same) {
      runs.back().end = o + 1;
    } else {
      runs.push_back({o, o + 1});
    }
  }
  return runs;
}

// Calls row(PoolRow<T>) for all outputs of y.
template <class T, class Row>
void pool(const PoolGeometry& geometry, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y,
          const ExecContext& context, const Row& row) {
  const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
  const std::array<std::int64_t, 5> xs = five_strides(x_desc), ys = five_strides(y_desc);
  const bool by_channels = xs[1] == 1 && ys[1] == 1 && x_desc.dims[1] > 1;
  const std::int64_t lanes = by_channels ? x_desc.dims[1] : 1, planes = by_channels ? 1 : x_desc.dims[1];
  const std::int64_t taps_in_row = std::min(width.kernel, width.in);
  const std::int64_t rows = std::min(depth.kernel, depth.in) * std::min(height.kernel, height.in);

  const std::vector<PoolRun> runs = runs_of(width);
  const std::int64_t step = width.stride * xs[4];  // of the taps from a position to the next
  // Neighbouring positions without a gap are one long row of channels.
  const bool one_row = by_channels && step == lanes && ys[4] == lanes;

  const std::int64_t count = x_desc.dims[0] * planes * depth.out * height.out * width.out;
  parallel_for(context, count, lanes * rows * taps_in_row, [&](std::int64_t begin, std::int64_t end) {
    std::vector<const void*> taps(static_cast<std::size_t>(rows * taps_in_row));
    for (std::int64_t unit = begin; unit < end;) {  // part of a row of outputs
      const std::int64_t w0 = unit % width.out, w1 = std::min(width.out, w0 + end - unit);
      const std::int64_t oh = unit / width.out % height.out, od = unit / (width.out * height.out) % depth.out;
      const std::int64_t plane = unit / (width.out * height.out * depth.out);
      const std::int64_t n = plane / planes, c = plane % planes;
      unit += w1 - w0;
      const std::int64_t inside_rows = std::max<std::int64_t>(0, depth.last_tap(od) - depth.first_tap(od)) *
                                       std::max<std::int64_t>(0, height.last_tap(oh) - height.first_tap(oh));
      const std::int64_t padded_rows = depth.padded_taps(od) * height.padded_taps(oh);
      for (std::size_t r = 0; r < runs.size() && runs[r].begin < w1; ++r) {
        const std::int64_t o = std::max(w0, runs[r].begin), o_end = std::min(w1, runs[r].end);
        if (o >= o_end) continue;
        const std::int64_t first = width.first_tap(o), last = width.last_tap(o);
        std::size_t found = 0;
        for (std::int64_t kd = depth.first_tap(od); kd < depth.last_tap(od); ++kd) {
          const std::int64_t d = od * depth.stride + kd * depth.dilation - depth.pad;
          for (std::int64_t kh = height.first_tap(oh); kh < height.last_tap(oh); ++kh) {
            const std::int64_t h = oh * height.stride + kh * height.dilation - height.pad;
            const T* line = x + n * xs[0] + c * xs[1] + d * xs[2] + h * xs[3];
            for (std::int64_t kw = first; kw < last; ++kw) {
              taps[found++] = line + (o * width.stride + kw * width.dilation - width.pad) * xs[4];
            }
          }
        }
        PoolRow<T> made{std::span<const void* const>(taps.data(), found),
                        step,
                        o_end - o,
                        y + n * ys[0] + c * ys[1] + od * ys[2] + oh * ys[3] + o * ys[4],
                        ys[4],
                        inside_rows * std::max<std::int64_t>(0, last - first),
                        padded_rows * width.padded_taps(o)};
        if (by_channels) {
          made.stride = made.y_stride = 1;
          made.count = one_row ? lanes * (o_end - o) : lanes;
          if (!one_row) {
            made.positions = o_end - o;
            made.step = step;
            made.y_step = ys[4];
          }
        }
        row(made);
      }
    }
  });
}

// A row by plain loops. Op has
//   using Acc;                                    the accumulator
//   Acc start() const;
//   Acc step(Acc acc, Compute<T> value) const;
//   T finish(Acc acc, std::int64_t inside, std::int64_t padded) const;
template <class T, class Op>
void pool_row(const Op& op, const PoolRow<T>& row) {
  constexpr std::int64_t kLanes = 64;  // accumulators that stay in the first-level cache
  typename Op::Acc acc[kLanes];
  const auto lanes_of = [&](std::int64_t from, T* y, std::int64_t lanes) {
    std::fill_n(acc, lanes, op.start());
    for (const void* tap : row.taps) {
      const T* at = static_cast<const T*>(tap) + from;
      const auto step = [&](std::int64_t stride) {
        for (std::int64_t i = 0; i < lanes; ++i) acc[i] = op.step(acc[i], static_cast<Compute<T>>(at[i * stride]));
      };
      // The usual strides get loops of their own, which vectorise.
      if (row.stride == 1) {
        step(1);
      } else if (row.stride == 2) {
        step(2);
      } else {
        step(row.stride);
      }
    }
    for (std::int64_t i = 0; i < lanes; ++i) y[i * row.y_stride] = op.finish(acc[i], row.inside, row.padded);
  };
  for (std::int64_t p = 0; p < row.positions; ++p) {
    for (std::int64_t i = 0; i < row.count; i += kLanes) {
      lanes_of(p * row.step + i * row.stride, row.y + p * row.y_step + i * row.y_stride,
               std::min(kLanes, row.count - i));
    }
  }
}

// The same of a maximum or an average by vectors: false where there are none for the type or the strides.
template <class T>
bool pool_row_by_vectors(avx2::PoolFunction function, std::int64_t divisor, const PoolRow<T>& row) {
  if constexpr (has_wide_rows<T> || std::is_same_v<T, float>) {
    constexpr DataType type = std::is_same_v<T, float> ? DataType::f32 : row_type<T>;
    if (row.y_stride != 1 || !avx2::has_pool_row(type, function, row.stride)) return false;
    avx2::pool_row(type, function,
                   {row.taps.data(), static_cast<std::int64_t>(row.taps.size()), row.stride, row.count, row.positions,
                    row.step, row.y_step, static_cast<float>(divisor)},
                   row.y);
    return true;
  }
  return false;
}

}  // namespace convoy::ops
