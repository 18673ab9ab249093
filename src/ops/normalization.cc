// Normalisation of runs of neighbours: LayerNormalization, GroupNormalization and InstanceNormalization see the tensor
// as rows of consecutive elements, each with a mean and a variance of its own:
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
// with scale and bias broadcasting. Instances of nhwc images interleave their channels and have a loop of their own.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ops/families.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;
};

// Two passes, the second over differences to the mean: no cancellation. Eight lanes hide the latency of additions.
template <class T>
Moments moments_of(const T* x, std::int64_t count) {
  constexpr int kLanes = 8;
  const auto sum = [&](auto&& term) {
    std::array<double, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(static_cast<double>(x[i + lane]));
    }
    for (; i < count; ++i) lanes[0] += term(static_cast<double>(x[i]));
    double total = 0;
    for (const double lane : lanes) total += lane;
    return total / static_cast<double>(count);
  };
  Moments m;
  m.mean = sum([](double value) { return value; });
  m.variance = sum([&](double value) { return (value - m.mean) * (value - m.mean); });
  return m;
}

// The tensor as rows, and how scale and bias lie along it.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t size = 0;  // elements of a row
  double epsilon = 0;
  BroadcastLoop loop;  // output, input, scale, bias; visits row after row
  bool has_scale = true;
  bool has_bias = true;
};

template <class T>
void normalize_row(const Rows& rows, std::int64_t row, const T* x, const T* scale, const T* bias, T* y, double mean,
                   double inverse) {
  using C = Compute<T>;
  const auto factor = static_cast<C>(inverse), center = static_cast<C>(mean);
  const BroadcastLoop& loop = rows.loop;
  loop.run(row * rows.size, (row + 1) * rows.size, [&](const std::int64_t* at, std::int64_t count) {
    const T* from = x + at[1];
    const T* a = scale + at[2];
    const T* b = bias + at[3];
    T* to = y + at[0];
    const std::int64_t a_step = loop.inner_stride(2), b_step = loop.inner_stride(3);
    if (a_step == 0 && b_step == 0) {
      const C gain = factor * static_cast<C>(*a), shift = static_cast<C>(*b);
#pragma GCC ivdep  // y is x or does not overlap it
      for (std::int64_t i = 0; i < count; ++i) to[i] = T((static_cast<C>(from[i]) - center) * gain + shift);
    } else if (a_step == 1 && b_step == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = T((static_cast<C>(from[i]) - center) * factor * static_cast<C>(a[i]) + static_cast<C>(b[i]));
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = T((static_cast<C>(from[i]) - center) * factor * static_cast<C>(a[i * a_step]) +
                  static_cast<C>(b[i * b_step]));
      }
    }
  });
}

// Calls `row_done(row, moments, inverse)` for the outputs besides y.
template <class T, class F>
void normalize_rows(const Rows& rows, std::span<const void* const> in, void* out, const ExecContext& context,
                    F&& row_done) {
  static const T kOne(1.0f), kZero(0.0f);
  const T* scale = rows.has_scale ? static_cast<const T*>(in[1]) : &kOne;
  const T* bias = rows.has_bias ? static_cast<const T*>(in[2]) : &kZero;
  parallel_for(context, rows.rows, rows.size * 3, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(in[0]);
      const Moments m = moments_of(x + row * rows.size, rows.size);
      const double inverse = 1 / std::sqrt(m.variance + rows.epsilon);
      normalize_row(rows, row, x, scale, bias, static_cast<T*>(out), m.mean, inverse);
      row_done(row, m, inverse);
    }
  });
}

std::int64_t product(const Dims& dims, int from, int to) {
  std::int64_t result = 1;
  for (int d = from; d < to; ++d) result *= dims[d];
  return result;
}

class LayerNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs, kMathFloats));
    if (auto epsilon = node.real("epsilon", 1e-5); !epsilon.ok()) return epsilon.error();
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const int axis, axis_of(node, x));
    for (int i = 1; i < static_cast<int>(inputs.size()); ++i) {
      if (!inputs[i].present) continue;
      const Dims shapes[] = {Dims(x.dims.begin() + axis, x.dims.end()), inputs[i].desc.dims};
      CONVOY_TRY(const Dims dims, broadcast_dims(node, shapes));
      if (dims != shapes[0]) {
        return bad_node(node, fmt::format("input {} with dims [{}] does not broadcast to the normalized [{}]", i,
                                          to_string(shapes[1]), to_string(shapes[0])));
      }
    }
    CONVOY_TRY(const std::int64_t stash, node.integer("stash_type", 1));
    CONVOY_TRY(const DataType statistics, data_type_of_onnx(node, stash, "stash_type"));
    if (!contains(kMathFloats, statistics)) return bad_node(node, fmt::format("stash_type={} is no float type", stash));
    Dims outer = x.dims;
    std::fill(outer.begin() + axis, outer.end(), 1);
    std::vector<TensorDesc> outputs;
    for (int i = 0; i < std::max(node.output_count, 1); ++i) {
      CONVOY_TRY(TensorDesc desc, make_output(node, i == 0 ? x.type : statistics, i == 0 ? x.dims : outer));
      outputs.push_back(std::move(desc));
    }
    return outputs;
  }

  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const int axis, axis_of(node, x));
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const TensorDesc scalar = TensorDesc::packed(x.type, {});
    const bool has_bias = is_present(inputs, 2);
    const Rows rows{product(x.dims, 0, axis),
                    product(x.dims, axis, x.rank()),
                    epsilon,
                    BroadcastLoop({outputs[0], x, inputs[1].desc, has_bias ? inputs[2].desc : scalar}),
                    true,
                    has_bias};
    const DataType statistics = outputs.size() > 1 ? outputs[1].type : DataType::f32;
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [rows, statistics](std::span<const void* const> in, std::span<void* const> out,
                                          const ExecContext& context) -> Result<void> {
                         normalize_rows<T>(rows, in, out[0], context,
                                           [&](std::int64_t row, const Moments& m, double inverse) {
                                             if (out.size() > 1 && out[1] != nullptr)
                                               store_from_double(statistics, out[1], row, m.mean);
                                             if (out.size() > 2 && out[2] != nullptr)
                                               store_from_double(statistics, out[2], row, inverse);
                                           });
                         return {};
                       });
    });
  }

 private:
  static Result<int> axis_of(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::int64_t axis, node.integer("axis", -1));
    return normalize_axis(node, axis, x.rank(), "axis");
  }
};

// A vector of `count` values along the second dim of [N, count, rest].
TensorDesc along_second(const TensorDesc& x, std::int64_t count) { return TensorDesc::packed(x.type, {count, 1}); }

class GroupNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs, kMathFloats));
    if (auto epsilon = node.real("epsilon", 1e-5); !epsilon.ok()) return epsilon.error();
    const TensorDesc& x = inputs[0].desc;
    if (x.rank() < 2) return bad_node(node, fmt::format("input 0 has rank {}, it needs N and C", x.rank()));
    CONVOY_TRY(const std::int64_t groups, node.integer("num_groups", 0));
    if (groups < 1 || x.dims[1] % groups != 0) {
      return bad_node(node, fmt::format("num_groups={} does not divide the {} channels", groups, x.dims[1]));
    }
    const std::int64_t count = scales(node, x, groups);
    for (int i = 1; i < 3; ++i) {
      if (inputs[i].desc.elements() != count) {
        return bad_node(node,
                        fmt::format("input {} has {} elements, it needs {}", i, inputs[i].desc.elements(), count));
      }
    }
    return one_output(node, x.type, x.dims);
  }

  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const std::int64_t groups, node.integer("num_groups", 0));
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const std::int64_t size = x.dims[1] / groups * product(x.dims, 2, x.rank());
    const std::int64_t count = scales(node, x, groups);
    const TensorDesc view =
        TensorDesc::packed(x.type, {x.dims[0], count, groups * size / std::max<std::int64_t>(count, 1)});
    const TensorDesc vector = along_second(x, count);
    const Rows rows{x.dims[0] * groups, size, epsilon, BroadcastLoop({view, view, vector, vector})};
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [rows](std::span<const void* const> in, std::span<void* const> out,
                              const ExecContext& context) -> Result<void> {
                         normalize_rows<T>(rows, in, out[0], context, [](std::int64_t, const Moments&, double) {});
                         return {};
                       });
    });
  }

 private:
  // Scale and bias were one value a group before opset 21, one a channel since.
  static std::int64_t scales(const NodeDesc& node, const TensorDesc& x, std::int64_t groups) {
    return node.opset < 21 ? groups : x.dims[1];
  }
};

class InstanceNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs, kMathFloats));
    if (auto epsilon = node.real("epsilon", 1e-5); !epsilon.ok()) return epsilon.error();
    const TensorDesc& x = inputs[0].desc;
    if (x.rank() < 2) return bad_node(node, fmt::format("input 0 has rank {}, it needs N and C", x.rank()));
    for (int i = 1; i < 3; ++i) {
      if (inputs[i].desc.elements() != x.dims[1]) {
        return bad_node(node, fmt::format("input {} has {} elements, input 0 has {} channels", i,
                                          inputs[i].desc.elements(), x.dims[1]));
      }
    }
    return one_output(node, x.type, x.dims);
  }

  // A constant stays in nchw, so it can't be read beside an nhwc output.
  bool accepts(const NodeDesc&, std::span<const Input> inputs, Layout layout) const override {
    return layout == Layout::nchw || (layout == Layout::nhwc && inputs[0].constant == nullptr);
  }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const std::int64_t batch = x.dims[0], channels = x.dims[1], pixels = product(x.dims, 2, x.rank());
    if (!x.is_packed(Layout::nchw)) {
      return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
        return make_plan(node,
                         [=](std::span<const void* const> in, std::span<void* const> out,
                             const ExecContext& context) -> Result<void> {
                           interleaved<T>(batch, channels, pixels, epsilon, in, static_cast<T*>(out[0]), context);
                           return {};
                         });
      });
    }
    const TensorDesc view = TensorDesc::packed(x.type, {batch, channels, pixels});
    const TensorDesc vector = along_second(x, channels);
    const Rows rows{batch * channels, pixels, epsilon, BroadcastLoop({view, view, vector, vector})};
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [rows](std::span<const void* const> in, std::span<void* const> out,
                              const ExecContext& context) -> Result<void> {
                         normalize_rows<T>(rows, in, out[0], context, [](std::int64_t, const Moments&, double) {});
                         return {};
                       });
    });
  }

 private:
  template <class T>
  static void interleaved(std::int64_t batch, std::int64_t channels, std::int64_t pixels, double epsilon,
                          std::span<const void* const> in, T* out, const ExecContext& context) {
    using C = Compute<T>;
    constexpr std::int64_t kChunk = 32;  // channels at a time: two cache lines of f32 a pixel
    const std::int64_t chunks = (channels + kChunk - 1) / kChunk;
    parallel_for(context, batch * chunks, pixels * kChunk * 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t first = unit % chunks * kChunk, n = std::min(kChunk, channels - first);
        const T* x = static_cast<const T*>(in[0]) + unit / chunks * pixels * channels + first;
        T* y = out + unit / chunks * pixels * channels + first;
        std::array<double, kChunk> mean{}, variance{};
        for (std::int64_t p = 0; p < pixels; ++p) {
          for (std::int64_t c = 0; c < n; ++c) mean[c] += static_cast<double>(x[p * channels + c]);
        }
        for (std::int64_t c = 0; c < n; ++c) mean[c] /= static_cast<double>(pixels);
        for (std::int64_t p = 0; p < pixels; ++p) {
          for (std::int64_t c = 0; c < n; ++c) {
            const double difference = static_cast<double>(x[p * channels + c]) - mean[c];
            variance[c] += difference * difference;
          }
        }
        std::array<C, kChunk> gain, shift;
        for (std::int64_t c = 0; c < n; ++c) {
          const double scale = static_cast<double>(static_cast<const T*>(in[1])[first + c]);
          const double g = scale / std::sqrt(variance[c] / static_cast<double>(pixels) + epsilon);
          gain[c] = static_cast<C>(g);
          shift[c] = static_cast<C>(static_cast<double>(static_cast<const T*>(in[2])[first + c]) - mean[c] * g);
        }
        for (std::int64_t p = 0; p < pixels; ++p) {
          for (std::int64_t c = 0; c < n; ++c) {
            y[p * channels + c] = T(static_cast<C>(x[p * channels + c]) * gain[c] + shift[c]);
          }
        }
      }
    });
  }
};

const LayerNormalization op_LayerNormalization;
const GroupNormalization op_GroupNormalization;
const InstanceNormalization op_InstanceNormalization;

}  // namespace

std::vector<OperatorRow> normalization_rows() {
  return {{"LayerNormalization", &op_LayerNormalization},
          {"GroupNormalization", &op_GroupNormalization},
          {"InstanceNormalization", &op_InstanceNormalization}};
}

}  // namespace convoy::ops
