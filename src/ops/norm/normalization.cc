// Normalisation of runs of neighbours: LayerNormalization, RMSNormalization, GroupNormalization and
// InstanceNormalization see the tensor as rows of consecutive elements, each with a mean and a variance of its own:
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
// with scale and bias broadcasting. RMSNormalization's mean is 0. Instances of nhwc images interleave their channels
// and have a loop of their own.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ops/math_types.h"
#include "ops/norm/short_rows.h"
#include "ops/operator_row.h"
#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// A variance as it is rounded; NaN stays (an infinity among the elements).
double not_below_zero(double variance) { return variance < 0 ? 0 : variance; }

struct Moments {
  double mean = 0;
  double variance = 0;
};

// In one pass over the differences to the first element, in f64: no cancellation unless that lies many deviations off,
// and then f64 has the digits.
template <class T>
Moments moments_of(bool vectors, const T* x, std::int64_t count) {
  constexpr int kLanes = 8;  // hide the latency of additions
  const double center = count > 0 ? static_cast<double>(x[0]) : 0;
  std::array<double, kLanes> sums{}, squares{};
  RowBuffer buffer;
  for (std::int64_t start = 0; start < count; start += kRowChunk) {
    const std::int64_t n = std::min(kRowChunk, count - start);
    const auto* values = computed(vectors, x + start, n, buffer);
    if constexpr (std::is_same_v<Compute<T>, float>) {
      if (vectors) {
        const avx2::RowSums row = avx2::sums_row(values, center, n);
        sums[0] += row.sum;
        squares[0] += row.squares;
        continue;
      }
    }
    const auto add = [&](int lane, std::int64_t i) {
      const double difference = static_cast<double>(values[i]) - center;
      sums[lane] += difference;
      squares[lane] += difference * difference;
    };
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
    }
    for (; i < n; ++i) add(0, i);
  }
  double sum = 0, square = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    sum += sums[lane];
    square += squares[lane];
  }
  const double mean = sum / static_cast<double>(count);
  return {center + mean, not_below_zero(square / static_cast<double>(count) - mean * mean)};
}

// The tensor as rows, and how scale and bias lie along it.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t size = 0;  // elements of a row
  double epsilon = 0;
  BroadcastLoop loop;           // output, input, scale, bias; visits row after row
  const RowFunctions* vectors;  // null: there are none
  bool has_scale = true;
  bool has_bias = true;
  bool alike = false;  // scale and bias have an element for each of a row, the same ones for all rows
  bool about_zero = false;
  std::int64_t channels = 0;  // a row has one element of scale and bias, that of its channel; 0: not so
  // Row r has `values` of scale and bias, from r % period * values on, each for as many of its elements; 0: not so.
  std::int64_t period = 0, values = 0;

  // As they are, or about 0: then the variance is the mean of squares.
  Moments used(const Moments& m) const { return about_zero ? Moments{0, m.variance + m.mean * m.mean} : m; }
};

// y = (x - center) * factor * scale + bias for a run of a row; steps of 0 or 1. y is x or does not overlap it.
template <class C>
void normalize_run(const C* x, C center, C factor, const C* scale, std::int64_t scale_step, const C* bias,
                   std::int64_t bias_step, C* y, std::int64_t count) {
  if (scale_step == 0 && bias_step == 0) {
    const C gain = factor * *scale, shift = *bias;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - center) * gain + shift;
  } else if (scale_step == 1 && bias_step == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - center) * factor * scale[i] + bias[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = (x[i] - center) * factor * scale[i * scale_step] + bias[i * bias_step];
    }
  }
}

template <class T>
void normalize_row(const Rows& rows, std::int64_t row, const T* x, const T* scale, const T* bias, T* y, double mean,
                   double inverse) {
  using C = Compute<T>;
  const auto factor = static_cast<C>(inverse), center = static_cast<C>(mean);
  const BroadcastLoop& loop = rows.loop;
  const std::int64_t a_step = loop.inner_stride(2), b_step = loop.inner_stride(3);
  loop.run(row * rows.size, (row + 1) * rows.size, [&](const std::int64_t* at, std::int64_t count) {
    const T* from = x + at[1];
    const T* a = scale + at[2];
    const T* b = bias + at[3];
    T* to = y + at[0];
    if constexpr (std::is_same_v<C, float>) {
      RowBuffer scales, biases;
      const bool vectors = rows.vectors != nullptr;
      const std::int64_t step = a_step == 0 && b_step == 0 ? 0 : 1;
      for (std::int64_t start = 0; start < count; start += kRowChunk) {
        const std::int64_t n = std::min(kRowChunk, count - start), some = step == 0 ? 1 : n;
        const float* gain = load_row(vectors, a + start * a_step, a_step, some, scales.data());
        const float* shift = load_row(vectors, b + start * b_step, b_step, some, biases.data());
        if (vectors) {
          RowBuffer values;
          const float* in = load_row(true, from + start, 1, n, values.data());
          rows.vectors->normalize(in, center, factor, gain, shift, step, float_type<T>, to + start, n);
          continue;
        }
        in_f32(false, from + start, 1, to + start, 1, n, [&](const float* in, float* out, std::int64_t, std::int64_t) {
          normalize_run(in, center, factor, gain, step, shift, step, out, n);
        });
      }
    } else {
      normalize_run(from, center, factor, a, a_step, b, b_step, to, count);
    }
  });
}

// In f32. What that may have lost (overflow, differences that vanish squared) is computed again as other types are.
template <class T>
Moments moments_in_floats(const RowFunctions& vectors, const T* x, float* wide, std::int64_t count) {
  const RowMoments m = vectors.moments(float_type<T>, x, wide, count);
  if (m.variance > 1e-25 && m.variance < 1e30) return {m.mean, m.variance};
  if constexpr (is_half<T>) return moments_of(true, wide, count);
  return moments_of(true, x, count);
}

// Sums in f32 of so many elements differ from those in f64 in the last digits only.
constexpr std::int64_t kMostInFloats = 8192;

template <class T>
Moments row_moments(const Rows& rows, const T* x) {
  if constexpr (std::is_same_v<T, float>) {
    if (rows.vectors != nullptr && rows.size <= kMostInFloats) {
      return moments_in_floats(*rows.vectors, x, nullptr, rows.size);
    }
  }
  return moments_of(rows.vectors != nullptr, x, rows.size);
}

// Of rows whose scale and bias are the same, which are widened once, or one element each. A row of halves is widened
// once for both of its passes.
constexpr std::int64_t kWidest = 1024;  // elements of a row

template <class T, class F>
void normalize_held(const Rows& rows, std::int64_t begin, std::int64_t end, const T* x, const T* scale, const T* bias,
                    T* y, F&& row_done) {
  const std::int64_t size = rows.size;
  alignas(64) std::array<float, kWidest> wide_scale, wide_bias, wide;
  const float *gain = wide_scale.data(), *shift = wide_bias.data();
  if (rows.alike) {
    gain = load_row(true, scale, 1, size, wide_scale.data());
    wide_bias.fill(0);
    if (rows.has_bias) shift = load_row(true, bias, 1, size, wide_bias.data());
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const row = x + r * size;
    Moments m;
    const float* values;
    if constexpr (is_half<T>) {
      m = moments_in_floats(*rows.vectors, row, wide.data(), size);
      values = wide.data();
    } else {
      m = row_moments(rows, row);
      values = row;
    }
    m = rows.used(m);
    const double inverse = 1 / std::sqrt(m.variance + rows.epsilon);
    if (!rows.alike) {
      wide_scale[0] = static_cast<float>(scale[r % rows.channels]);
      wide_bias[0] = static_cast<float>(bias[r % rows.channels]);
    }
    rows.vectors->normalize(values, static_cast<float>(m.mean), static_cast<float>(inverse), gain, shift,
                            rows.alike ? 1 : 0, row_type<T>, y + r * size, size);
    row_done(r, m, inverse);
  }
}

// Rows of few elements, many side by side.
template <class T, class F>
void normalize_short(const Rows& rows, std::int64_t begin, std::int64_t end, const T* x, const T* scale, const T* bias,
                     T* y, F&& row_done) {
  const std::int64_t size = rows.size, most = lines_at_once(size), each = size / rows.values;
  const std::int64_t count = rows.period * rows.values;
  std::vector<float> given(static_cast<std::size_t>(2 * count), 0.0F);
  float *const scales = given.data(), *const biases = scales + count;
  const auto widen = [](const T* from, std::int64_t n, float* to) {
    for (std::int64_t i = 0; i < n; i += kRowChunk) {
      const std::int64_t some = std::min(kRowChunk, n - i);
      const float* const row = load_row(true, from + i, 1, some, to + i);
      if (row != to + i) std::copy_n(row, some, to + i);
    }
  };
  widen(scale, count, scales);
  if (rows.has_bias) widen(bias, count, biases);
  alignas(64) std::array<float, kShortElements> memory, lines;
  alignas(64) std::array<float, kShortLines> center, factor, gain, shift;
  LineMoments moments;
  for (std::int64_t first = begin; first < end; first += most) {
    const std::int64_t n = std::min(most, end - first);
    const float* const in = load_row(true, x + first * size, 1, n * size, memory.data());
    for (std::int64_t e = 0; e < size; ++e) {
      for (std::int64_t i = 0; i < n; ++i) lines[e * n + i] = in[i * size + e];
    }
    moments_of_lines(lines.data(), size, n, moments);
    for (std::int64_t i = 0; i < n; ++i) {
      const Moments m = rows.used({moments.mean[i], moments.variance[i]});
      const double inverse = 1 / std::sqrt(m.variance + rows.epsilon);
      center[i] = static_cast<float>(m.mean);
      factor[i] = static_cast<float>(inverse);
      row_done(first + i, m, inverse);
    }
    for (std::int64_t v = 0; v < rows.values; ++v) {
      for (std::int64_t i = 0, r = first % rows.period; i < n; ++i) {
        gain[i] = factor[i] * scales[r * rows.values + v];
        shift[i] = biases[r * rows.values + v];
        if (++r == rows.period) r = 0;
      }
      for (std::int64_t e = v * each; e < (v + 1) * each; ++e) {
        float* const line = lines.data() + e * n;
        for (std::int64_t i = 0; i < n; ++i) line[i] = (line[i] - center[i]) * gain[i] + shift[i];
      }
    }
    float* made = memory.data();
    if constexpr (std::is_same_v<T, float>) made = y + first * size;
    for (std::int64_t e = 0; e < size; ++e) {
      for (std::int64_t i = 0; i < n; ++i) made[i * size + e] = lines[e * n + i];
    }
    if constexpr (!std::is_same_v<T, float>) store_row(true, made, n * size, y + first * size, 1);
  }
}

// Calls `row_done(row, moments, inverse)` for the outputs besides y.
template <class T, class F>
void normalize_rows(const Rows& rows, std::span<const void* const> in, void* out, const ExecContext& context,
                    F&& row_done) {
  static const T kOne(1.0f), kZero(0.0f);
  const T* scale = rows.has_scale ? static_cast<const T*>(in[1]) : &kOne;
  const T* bias = rows.has_bias ? static_cast<const T*>(in[2]) : &kZero;
  const auto* const x = static_cast<const T*>(in[0]);
  auto* const y = static_cast<T*>(out);
  parallel_for(context, rows.rows, rows.size * 3, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (is_half<T> || std::is_same_v<T, float>) {
      if (rows.vectors != nullptr && rows.period > 0 && rows.size > 0 && rows.size <= kLongestShortRow) {
        return normalize_short(rows, begin, end, x, scale, bias, y, row_done);
      }
      const bool held = rows.size <= kWidest || (!is_half<T> && rows.has_bias);
      if (rows.vectors != nullptr && (rows.alike || rows.channels > 0) && held) {
        return normalize_held(rows, begin, end, x, scale, bias, y, row_done);
      }
    }
    for (std::int64_t row = begin; row < end; ++row) {
      const Moments m = rows.used(row_moments(rows, x + row * rows.size));
      const double inverse = 1 / std::sqrt(m.variance + rows.epsilon);
      normalize_row(rows, row, x, scale, bias, y, m.mean, inverse);
      row_done(row, m, inverse);
    }
  });
}

std::int64_t product(const Dims& dims, int from, int to) {
  std::int64_t result = 1;
  for (int d = from; d < to; ++d) result *= dims[d];
  return result;
}

// And RMSNormalization, which has neither bias nor statistics.
class LayerNormalization final : public Operator {
 public:
  constexpr explicit LayerNormalization(bool about_zero) : about_zero_(about_zero) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, about_zero_ ? 2 : 3, about_zero_ ? 1 : 3));
    CONVOY_CHECK(check_same_type(node, inputs));
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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const int axis, axis_of(node, x));
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const TensorDesc scalar = TensorDesc::packed(x.type, {});
    const bool has_bias = is_present(inputs, 2);
    const std::int64_t size = product(x.dims, axis, x.rank());
    const bool alike = inputs[1].desc.elements() == size && (!has_bias || inputs[2].desc.elements() == size);
    Rows rows{product(x.dims, 0, axis),
              size,
              epsilon,
              BroadcastLoop({outputs[0], x, inputs[1].desc, has_bias ? inputs[2].desc : scalar}),
              row_functions(request.cpu.isa),
              true,
              has_bias,
              alike,
              about_zero_};
    if (alike) {
      rows.period = 1;
      rows.values = size;
    }
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

  bool about_zero_;
};

// A vector of `count` values along the second dim of [N, count, rest].
TensorDesc along_second(const TensorDesc& x, std::int64_t count) { return TensorDesc::packed(x.type, {count, 1}); }

std::unique_ptr<OpPlan> plan_of_rows(const NodeDesc& node, DataType type, const Rows& rows) {
  return dispatch<kMathFloats>(type, [&]<class T>(Tag<T>) {
    return make_plan(node,
                     [rows](std::span<const void* const> in, std::span<void* const> out,
                            const ExecContext& context) -> Result<void> {
                       normalize_rows<T>(rows, in, out[0], context, [](std::int64_t, const Moments&, double) {});
                       return {};
                     });
  });
}

class GroupNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs));
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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const std::int64_t groups, node.integer("num_groups", 0));
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const std::int64_t size = x.dims[1] / groups * product(x.dims, 2, x.rank());
    const std::int64_t count = scales(node, x, groups);
    const TensorDesc view =
        TensorDesc::packed(x.type, {x.dims[0], count, groups * size / std::max<std::int64_t>(count, 1)});
    const TensorDesc vector = along_second(x, count);
    Rows rows{x.dims[0] * groups, size, epsilon, BroadcastLoop({view, view, vector, vector}),
              row_functions(request.cpu.isa)};
    rows.period = groups;
    rows.values = count / groups;
    return plan_of_rows(node, x.type, rows);
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
    CONVOY_CHECK(check_same_type(node, inputs));
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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const double epsilon, node.real("epsilon", 1e-5));
    const std::int64_t batch = x.dims[0], channels = x.dims[1], pixels = product(x.dims, 2, x.rank());
    if (!x.is_packed(Layout::nchw)) {
      const bool vectors = has_row_vectors(request);
      return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
        return make_plan(node,
                         [=](std::span<const void* const> in, std::span<void* const> out,
                             const ExecContext& context) -> Result<void> {
                           interleaved<T>(vectors, batch, channels, pixels, epsilon, in, static_cast<T*>(out[0]),
                                          context);
                           return {};
                         });
      });
    }
    const TensorDesc view = TensorDesc::packed(x.type, {batch, channels, pixels});
    const TensorDesc vector = along_second(x, channels);
    Rows rows{batch * channels, pixels, epsilon, BroadcastLoop({view, view, vector, vector}),
              row_functions(request.cpu.isa)};
    rows.channels = rows.period = channels;
    rows.values = 1;
    return plan_of_rows(node, x.type, rows);
  }

 private:
  template <class T>
  static void interleaved(bool vectors, std::int64_t batch, std::int64_t channels, std::int64_t pixels, double epsilon,
                          std::span<const void* const> in, T* out, const ExecContext& context) {
    using C = Compute<T>;
    const std::int64_t width = channels_of_unit(batch, channels, context.team().size());
    const std::int64_t units = (channels + width - 1) / width;
    parallel_for(context, batch * units, pixels * width * 3, [&](std::int64_t begin, std::int64_t end) {
      RowBuffer buffer;
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t first = unit % units * width, n = std::min(width, channels - first);
        const T* x = static_cast<const T*>(in[0]) + unit / units * pixels * channels + first;
        T* y = out + unit / units * pixels * channels + first;
        // As moments_of() does it: sums of differences to the first pixel, and of their squares.
        std::array<double, kRowChunk> mean, variance;
        std::array<C, kRowChunk> center;
        std::fill_n(mean.begin(), n, 0.0);
        std::fill_n(variance.begin(), n, 0.0);
        if (pixels == 0) continue;  // nothing to write
        std::copy_n(computed(vectors, x, n, buffer), n, center.begin());
        for (std::int64_t p = 0; p < pixels; ++p) {
          const C* row = computed(vectors, x + p * channels, n, buffer);
          if constexpr (std::is_same_v<C, float>) {
            if (vectors) {
              avx2::add_row(row, center.data(), mean.data(), variance.data(), n);
              continue;
            }
          }
          for (std::int64_t c = 0; c < n; ++c) {
            const double difference = static_cast<double>(row[c]) - static_cast<double>(center[c]);
            mean[c] += difference;
            variance[c] += difference * difference;
          }
        }
        const auto count = static_cast<double>(pixels);
        for (std::int64_t c = 0; c < n; ++c) {
          const double difference = mean[c] / count;
          variance[c] = not_below_zero(variance[c] / count - difference * difference);
          mean[c] = difference + static_cast<double>(center[c]);
        }
        std::array<C, kRowChunk> gain, shift;
        for (std::int64_t c = 0; c < n; ++c) {
          const double scale = static_cast<double>(static_cast<const T*>(in[1])[first + c]);
          const double g = scale / std::sqrt(variance[c] + epsilon);
          gain[c] = static_cast<C>(g);
          shift[c] = static_cast<C>(static_cast<double>(static_cast<const T*>(in[2])[first + c]) - mean[c] * g);
        }
        for (std::int64_t p = 0; p < pixels; ++p) {
          const C* row = computed(vectors, x + p * channels, n, buffer);
          if constexpr (is_half<T>) {
            for (std::int64_t c = 0; c < n; ++c) buffer[c] = row[c] * gain[c] + shift[c];
            store_row(vectors, buffer.data(), n, y + p * channels, 1);
          } else {
#pragma GCC ivdep  // y is x or does not overlap it
            for (std::int64_t c = 0; c < n; ++c) y[p * channels + c] = row[c] * gain[c] + shift[c];
          }
        }
      }
    });
  }
};

Taken layouts_of_instance_normalization(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  return (inputs[0].constant == nullptr ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

constexpr LayerNormalization op_LayerNormalization(false), op_RMSNormalization(true);
const GroupNormalization op_GroupNormalization;
const InstanceNormalization op_InstanceNormalization;

}  // namespace

std::vector<OperatorRow> normalization_rows() {
  return {{"LayerNormalization", &op_LayerNormalization, images::along_last, Rate::normalizations, values::mixed,
           in_place::first, layouts::row_major, kMathFloats},
          {"RMSNormalization", &op_RMSNormalization, images::along_last, Rate::normalizations, values::mixed,
           in_place::first, layouts::row_major, kMathFloats},
          {"GroupNormalization", &op_GroupNormalization, images::each_alone, Rate::normalizations, values::mixed,
           in_place::first, layouts::row_major, kMathFloats},
          {"InstanceNormalization", &op_InstanceNormalization, images::each_alone, Rate::normalizations, values::mixed,
           in_place::first, layouts_of_instance_normalization, kMathFloats}};
}

}  // namespace convoy::ops
