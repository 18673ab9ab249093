// MaxPool, with its second output, and MaxUnpool.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/pooling/plane_pool.h"
#include "ops/pooling/plane_rows.h"
#include "ops/pooling/pooling.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kMaxPoolTypes = kMathFloats | only(DataType::s8) | only(DataType::u8);

// The least value: what a window that misses the input gives.
template <class T>
Compute<T> lowest() {
  if constexpr (is_float_element<T>) return -std::numeric_limits<Compute<T>>::infinity();
  return std::numeric_limits<Compute<T>>::lowest();
}

template <class T>
struct MaxOp {
  using Acc = Compute<T>;
  Acc start() const { return lowest<T>(); }
  Acc step(Acc acc, Acc value) const { return value > acc ? value : acc; }
  T finish(Acc acc, std::int64_t, std::int64_t) const { return T(acc); }
};

// The maxima and where they are: the flat index of the first one in x as nchw, with the spatial dims in row-major or
// (storage_order 1) column-major order.
template <class T>
void pool_with_indices(const PoolGeometry& geometry, bool column_major, const TensorDesc& x_desc,
                       const TensorDesc& y_desc, const TensorDesc& indices_desc, const T* x, T* y,
                       std::int64_t* indices, const ExecContext& context) {
  const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
  const std::array<std::int64_t, 5> xs = five_strides(x_desc), ys = five_strides(y_desc);
  const std::array<std::int64_t, 5> is = five_strides(indices_desc);
  const std::int64_t channels = x_desc.dims[1];
  const std::int64_t plane = depth.in * height.in * width.in;
  const std::int64_t step_d = column_major ? 1 : height.in * width.in;
  const std::int64_t step_h = column_major ? depth.in : width.in;
  const std::int64_t step_w = column_major ? depth.in * height.in : 1;
  parallel_for(context, x_desc.dims[0] * channels * depth.out * height.out, width.out * 8,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t oh = unit % height.out, od = unit / height.out % depth.out;
                   const std::int64_t image = unit / (height.out * depth.out);  // n * channels + c
                   const std::int64_t n = image / channels, c = image % channels;
                   for (std::int64_t ow = 0; ow < width.out; ++ow) {
                     Compute<T> best = lowest<T>();
                     std::int64_t place = -1;
                     for (std::int64_t kd = depth.first_tap(od); kd < depth.last_tap(od); ++kd) {
                       const std::int64_t d = od * depth.stride + kd * depth.dilation - depth.pad;
                       for (std::int64_t kh = height.first_tap(oh); kh < height.last_tap(oh); ++kh) {
                         const std::int64_t h = oh * height.stride + kh * height.dilation - height.pad;
                         for (std::int64_t kw = width.first_tap(ow); kw < width.last_tap(ow); ++kw) {
                           const std::int64_t w = ow * width.stride + kw * width.dilation - width.pad;
                           const auto value =
                               static_cast<Compute<T>>(x[n * xs[0] + c * xs[1] + d * xs[2] + h * xs[3] + w * xs[4]]);
                           if (value > best || place < 0) {
                             best = value;
                             place = d * step_d + h * step_h + w * step_w;
                           }
                         }
                       }
                     }
                     y[n * ys[0] + c * ys[1] + od * ys[2] + oh * ys[3] + ow * ys[4]] = T(best);
                     indices[n * is[0] + c * is[1] + od * is[2] + oh * is[3] + ow * is[4]] =
                         place < 0 ? -1 : image * plane + place;
                   }
                 }
               });
}

// Whether the channels of a position are innermost and rows have no gaps, and the maxima down the columns of a row of
// windows and then those along it, both long runs of neighbours, are made sooner than those of each window by itself.
bool goes_by_rows(const PoolGeometry& geometry, const TensorDesc& x, const TensorDesc& y) {
  const std::array<std::int64_t, 5> xs = five_strides(x), ys = five_strides(y);
  const std::int64_t channels = x.dims[1];
  if (xs[1] != 1 || ys[1] != 1 || xs[4] != channels || ys[4] != channels) return false;
  // Position by position the taps of bytes take longer to find than to compare.
  if (size_of(x.type) == 1) return true;
  if (x.type != DataType::f32) return false;  // which zero is kept would depend on it
  const PoolAxis& width = geometry.axes[2];
  const std::int64_t down = geometry.axes[0].kernel * geometry.axes[1].kernel;
  return (down + 1) * width.stride + width.kernel < down * width.kernel;  // loads and stores for an output
}

void max_pool_rows(const PoolGeometry& geometry, const TensorDesc& x_desc, const TensorDesc& y_desc,
                   const PlaneRows& of_floats, const std::byte* x, std::byte* y, const ExecContext& context) {
  const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
  const std::array<std::int64_t, 5> xs = five_strides(x_desc), ys = five_strides(y_desc);
  const std::int64_t bytes = size_of(x_desc.type), channels = x_desc.dims[1], row = width.in * channels;
  const std::vector<PoolRun> runs = runs_of(width);
  const std::int64_t step = width.stride * channels;
  // At `positions`, of which each is `count` elements, the largest of the taps.
  const auto largest = [&](std::vector<const void*>& taps, std::int64_t count, std::int64_t positions, std::byte* to) {
    const auto number = static_cast<std::int64_t>(taps.size());
    if (x_desc.type != DataType::f32) {
      return avx2::pool_row(x_desc.type, avx2::PoolFunction::max,
                            {taps.data(), number, 1, count, positions, step, channels}, to);
    }
    for (std::int64_t p = 0; p < positions; ++p) {
      of_floats.down(false, DataType::f32, taps.data(), number, count, reinterpret_cast<float*>(to) + p * channels);
      for (const void*& tap : taps) tap = static_cast<const float*>(tap) + step;
    }
  };
  const std::int64_t work = row * (depth.kernel * height.kernel + width.kernel) * bytes / 8;
  parallel_for(context, x_desc.dims[0] * depth.out * height.out, work, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> columns(static_cast<std::size_t>(row * bytes));
    std::vector<const void*> taps;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t oh = unit % height.out, od = unit / height.out % depth.out;
      const std::int64_t n = unit / (height.out * depth.out);
      taps.clear();
      for (std::int64_t kd = depth.first_tap(od); kd < depth.last_tap(od); ++kd) {
        const std::int64_t d = od * depth.stride + kd * depth.dilation - depth.pad;
        for (std::int64_t kh = height.first_tap(oh); kh < height.last_tap(oh); ++kh) {
          const std::int64_t h = oh * height.stride + kh * height.dilation - height.pad;
          taps.push_back(x + (n * xs[0] + d * xs[2] + h * xs[3]) * bytes);
        }
      }
      largest(taps, row, 1, columns.data());
      std::byte* const to = y + (n * ys[0] + od * ys[2] + oh * ys[3]) * bytes;
      for (const PoolRun& run : runs) {
        taps.clear();
        for (std::int64_t kw = width.first_tap(run.begin); kw < width.last_tap(run.begin); ++kw) {
          const std::int64_t at = run.begin * width.stride + kw * width.dilation - width.pad;
          taps.push_back(columns.data() + at * channels * bytes);
        }
        const std::int64_t positions = run.end - run.begin;
        const bool one_row = width.stride == 1;
        largest(taps, one_row ? positions * channels : channels, one_row ? 1 : positions,
                to + run.begin * channels * bytes);
      }
    }
  });
}

// Planes of bytes whose rows are shorter than a vector: where the taps of each output lie in a plane is the same in all
// of them, and is found once.
class ShortBytePlanes {
 public:
  explicit ShortBytePlanes(const PoolGeometry& geometry) {
    const auto& [depth, height, width] = geometry.axes;
    in_plane_ = depth.in * height.in * width.in;
    for (std::int64_t od = 0; od < depth.out; ++od) {
      for (std::int64_t oh = 0; oh < height.out; ++oh) {
        for (std::int64_t ow = 0; ow < width.out; ++ow) {
          for (std::int64_t kd = depth.first_tap(od); kd < depth.last_tap(od); ++kd) {
            for (std::int64_t kh = height.first_tap(oh); kh < height.last_tap(oh); ++kh) {
              for (std::int64_t kw = width.first_tap(ow); kw < width.last_tap(ow); ++kw) {
                taps_.push_back((place(depth, od, kd) * height.in + place(height, oh, kh)) * width.in +
                                place(width, ow, kw));
              }
            }
          }
          ends_.push_back(taps_.size());
        }
      }
    }
  }

  static bool fits(const PoolGeometry& geometry, const TensorDesc& x, const TensorDesc& y) {
    constexpr std::int64_t kShortRow = 16, kMostTaps = 4096;
    if (size_of(x.type) != 1 || geometry.axes[2].out >= kShortRow) return false;
    if (!x.is_packed(Layout::nchw) || !y.is_packed(Layout::nchw)) return false;
    // The channels of a position are a row of vectors already.
    if (five_strides(x)[1] == 1 && five_strides(y)[1] == 1) return false;
    std::int64_t taps = 1;
    for (const PoolAxis& axis : geometry.axes) {
      for (const std::int64_t size : {axis.out, std::min(axis.kernel, axis.in)}) {
        if (size > kMostTaps || (taps *= size) > kMostTaps) return false;
      }
    }
    return true;
  }

  template <class T>
  void run(const T* x, T* y, std::int64_t planes, const ExecContext& context) const {
    const auto outputs = static_cast<std::int64_t>(ends_.size());
    parallel_for(context, planes, static_cast<std::int64_t>(taps_.size()) + outputs,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = begin; p < end; ++p) {
                     const T* const plane = x + p * in_plane_;
                     T* to = y + p * outputs;
                     std::size_t tap = 0;
                     for (const std::size_t last : ends_) {
                       T best = std::numeric_limits<T>::lowest();
                       for (; tap < last; ++tap) best = std::max(best, plane[taps_[tap]]);
                       *to++ = best;
                     }
                   }
                 });
  }

 private:
  static std::int64_t place(const PoolAxis& axis, std::int64_t o, std::int64_t k) {
    return o * axis.stride + k * axis.dilation - axis.pad;
  }

  std::int64_t in_plane_ = 0;
  std::vector<std::int64_t> taps_;  // of one output after another
  std::vector<std::size_t> ends_;   // of each output's taps
};

// Rows of one element: the dim before takes their place.
void drop_single_columns(PoolGeometry& geometry, TensorDesc& x, TensorDesc& y) {
  if (!x.is_packed(Layout::nchw) || !y.is_packed(Layout::nchw)) return;
  while (geometry.spatial_dims > 1 && geometry.axes[2].in == 1 && geometry.axes[2].out == 1) {
    std::rotate(geometry.axes.begin(), geometry.axes.begin() + 2, geometry.axes.end());
    --geometry.spatial_dims;
    x = TensorDesc::packed(x.type, Dims(x.dims.begin(), x.dims.end() - 1));
    y = TensorDesc::packed(y.type, Dims(y.dims.begin(), y.dims.end() - 1));
  }
}

class MaxPool final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1, 2));
    CONVOY_TRY(const PoolGeometry geometry, read_pooling(node, inputs[0].desc.dims));
    if (auto order = node.integer("storage_order", 0); !order.ok()) return order.error();
    const Dims dims = pooled_dims(geometry, inputs[0].desc.dims);
    CONVOY_TRY(std::vector<TensorDesc> outputs, one_output(node, inputs[0].desc.type, dims));
    if (node.output_count > 1) {
      CONVOY_TRY(TensorDesc indices, make_output(node, DataType::s64, dims));
      outputs.push_back(std::move(indices));
    }
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    TensorDesc x = inputs[0].desc, y = outputs[0];
    CONVOY_TRY(PoolGeometry geometry, read_pooling(node, x.dims));
    CONVOY_TRY(const std::int64_t order, node.integer("storage_order", 0));
    const bool with_indices = outputs.size() > 1, vectors = has_row_vectors(request);
    if (!with_indices) drop_single_columns(geometry, x, y);
    const TensorDesc indices = with_indices ? outputs[1] : y;
    if (!with_indices) {
      if (auto plan = plane_pooling(node, PoolKind::max, geometry, x, y, request)) return plan;
    }
    if (const PlaneRows* rows = plane_rows(request.cpu.isa);
        rows != nullptr && !with_indices && goes_by_rows(geometry, x, y)) {
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        max_pool_rows(geometry, x, y, *rows, static_cast<const std::byte*>(in[0]), static_cast<std::byte*>(out[0]),
                      context);
        return {};
      });
    }
    if (!with_indices && ShortBytePlanes::fits(geometry, x, y)) {
      const ShortBytePlanes pooling(geometry);
      const std::int64_t planes = x.dims[0] * x.dims[1];
      return dispatch<only(DataType::s8) | only(DataType::u8)>(x.type, [&]<class T>(Tag<T>) {
        return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
          pooling.run(static_cast<const T*>(in[0]), static_cast<T*>(out[0]), planes, context);
          return {};
        });
      });
    }
    return dispatch<kMaxPoolTypes>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const T* from = static_cast<const T*>(in[0]);
        T* to = static_cast<T*>(out[0]);
        if (with_indices && out[1] != nullptr) {
          pool_with_indices(geometry, order == 1, x, y, indices, from, to, static_cast<std::int64_t*>(out[1]), context);
        } else {
          pool(geometry, x, y, from, to, context, [&](const PoolRow<T>& row) {
            if (vectors && pool_row_by_vectors(avx2::PoolFunction::max, 1, row)) return;
            pool_row(MaxOp<T>{}, row);
          });
        }
        return {};
      });
    });
  }
};

// Puts values back where MaxPool took them from: indices are flat ones in the tensor that it pooled, whose dims are
// output_shape, else those that kernel_shape, strides and pads give. ONNX's own test of output_shape has indices in the
// latter, which a value that is outside of its window shows, as "pooling the result gives back the input" has it.
class MaxUnpool final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {2}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::s64)));
    const Dims& from = inputs[0].desc.dims;
    if (inputs[1].desc.dims != from) return bad_node(node, "inputs 0 and 1 must have the same dims");
    CONVOY_TRY(const Windows windows, read(node, from));
    if (!is_present(inputs, 2)) return one_output(node, inputs[0].desc.type, windows.unpooled);
    CONVOY_TRY(Dims dims, constant_integers(node, inputs, 2));
    bool fits = dims.size() == from.size();
    for (std::size_t d = 0; fits && d < dims.size(); ++d) {
      fits = d < 2 ? dims[d] == from[d] : dims[d] >= 0 && (from[d] == 0 || dims[d] > windows.begin(d, from[d] - 1));
    }
    if (!fits) {
      return bad_node(node, fmt::format("input 2 (output_shape) is [{}], the windows give [{}]", to_string(dims),
                                        to_string(windows.unpooled)));
    }
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    CONVOY_TRY(const Windows windows, read(node, x.dims));
    return dispatch_bytes(size_of(y.type), [&]<class T>(Tag<T>) {
      return make_plan(node, [=, op = node.op](auto in, auto out, const ExecContext&) -> Result<void> {
        std::memset(out[0], 0, y.bytes());
        const std::span indices(static_cast<const std::int64_t*>(in[1]), static_cast<std::size_t>(x.elements()));
        const bool inferred = y.dims != windows.unpooled && !windows.hold(indices, x.dims, y.dims) &&
                              windows.hold(indices, x.dims, windows.unpooled);
        const Dims& dims = inferred ? windows.unpooled : y.dims;
        const std::int64_t limit = TensorDesc::packed(y.type, dims).elements();
        for (std::size_t i = 0; i < indices.size(); ++i) {
          if (indices[i] < 0 || indices[i] >= limit) {
            return Error{ErrorCode::invalid_argument,
                         fmt::format("{}: input 1 (indices) has {} at {}, outside [0, {})", op, indices[i], i, limit)};
          }
          const Coordinates at = coordinates(indices[i], dims);
          bool inside = true;
          for (int d = 0; d < y.rank(); ++d) inside &= at[d] < y.dims[d];
          if (inside) static_cast<T*>(out[0])[y.offset(at.data())] = static_cast<const T*>(in[0])[i];
        }
        return {};
      });
    });
  }

 private:
  using Coordinates = std::array<std::int64_t, 5>;

  // Of a flat index.
  static Coordinates coordinates(std::int64_t index, const Dims& dims) {
    Coordinates at{};
    for (std::size_t d = dims.size(); d-- > 0; index /= dims[d]) at[d] = index % dims[d];
    return at;
  }

  // MaxPool's, and the dims that they give, of the least tensor that has them all.
  struct Windows {
    Dims kernel, strides, pads, unpooled;

    // Where a window begins along dim d, and how long it is.
    std::int64_t begin(std::size_t d, std::int64_t at) const {
      return d < 2 ? at : std::max<std::int64_t>(0, at * strides[d - 2] - pads[d - 2]);
    }
    std::int64_t end(std::size_t d, std::int64_t at) const {
      return d < 2 ? at + 1 : at * strides[d - 2] - pads[d - 2] + kernel[d - 2];
    }

    // Whether each index is in the window of its position, were it one in a tensor of these dims.
    bool hold(std::span<const std::int64_t> indices, const Dims& pooled, const Dims& dims) const {
      const std::int64_t limit = TensorDesc::packed(DataType::f32, dims).elements();
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] < 0 || indices[i] >= limit) return false;
        const Coordinates at = coordinates(indices[i], dims);
        const Coordinates position = coordinates(static_cast<std::int64_t>(i), pooled);
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (at[d] < begin(d, position[d]) || at[d] >= end(d, position[d])) return false;
        }
      }
      return true;
    }
  };

  static Result<Windows> read(const NodeDesc& node, const Dims& dims) {
    const std::size_t spatial = dims.size() < 2 ? 0 : dims.size() - 2;
    Windows windows;
    CONVOY_TRY(windows.kernel, node.integers("kernel_shape", {}));
    CONVOY_TRY(windows.strides, node.integers("strides", Dims(spatial, 1)));
    CONVOY_TRY(windows.pads, node.integers("pads", Dims(2 * spatial, 0)));
    const auto& [kernel, strides, pads, unpooled] = windows;
    if (spatial < 1 || spatial > 3 || kernel.size() != spatial || strides.size() != spatial ||
        pads.size() != 2 * spatial) {
      return bad_node(
          node, fmt::format("kernel_shape=[{}], strides=[{}], pads=[{}] for an input of dims [{}]",
                            fmt::join(kernel, ","), fmt::join(strides, ","), fmt::join(pads, ","), to_string(dims)));
    }
    windows.unpooled = {dims[0], dims[1]};
    for (std::size_t d = 0; d < spatial; ++d) {
      __extension__ using Wide = __int128;
      constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
      const auto good = [](std::int64_t value, std::int64_t least) { return value >= least && value <= kLargest; };
      const Wide size =
          dims[2 + d] == 0 ? 0 : Wide(dims[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[spatial + d];
      if (size < 0 || size > std::numeric_limits<std::int64_t>::max() / 2 || !good(kernel[d], 1) ||
          !good(strides[d], 1) || !good(pads[d], 0) || !good(pads[spatial + d], 0)) {
        return bad_node(node, fmt::format("spatial dim {} can't be unpooled with kernel {} and stride {}", d, kernel[d],
                                          strides[d]));
      }
      windows.unpooled.push_back(static_cast<std::int64_t>(size));
    }
    return windows;
  }
};

// An index counts elements of the whole tensor, so only values are there in blocks.
Taken layouts_of_max_pool(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  return (node.output_count == 1 ? layouts::channels_alike : layouts::plain)(node, inputs, layout);
}

const MaxPool max_pool;
const MaxUnpool max_unpool;

}  // namespace

std::vector<OperatorRow> max_pool_rows() {
  return {{"MaxPool", &max_pool, images::one_output, Rate::windows, values::selected, in_place::never,
           layouts_of_max_pool, kMaxPoolTypes},
          {"MaxUnpool", &max_unpool, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathFloats}};
}

}  // namespace convoy::ops
