// BatchNormalization: y = scale * (x - mean) / sqrt(var + epsilon) + bias, per channel (or, with spatial=0 before
// opset 9, per element of a sample). In training mean and var are those of the batch, and the running ones are updated:
//   running = running * momentum + current * (1 - momentum), with the population variance.
// Besides ONNX's attributes `least` and `most` bound y: what a pass takes over from a Relu or Clip behind it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/blocks.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

struct Parameters {
  double epsilon = 1e-5;
  double momentum = 0.9;
  bool training = false;
  bool spatial = true;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();  // of y
};

Result<Parameters> parameters_of(const NodeDesc& node) {
  Parameters p;
  CONVOY_TRY(p.epsilon, node.real("epsilon", 1e-5));
  CONVOY_TRY(p.momentum, node.real("momentum", 0.9));
  CONVOY_TRY(p.least, node.real("least", p.least));
  CONVOY_TRY(p.most, node.real("most", p.most));
  CONVOY_TRY(const std::int64_t mode, node.integer("training_mode", 0));
  CONVOY_TRY(const std::int64_t spatial, node.integer("spatial", 1));
  p.training = node.opset >= 14 ? mode != 0 : node.output_count > 1;
  p.spatial = node.opset >= 9 || spatial != 0;
  return p;
}

// Dims of a statistic, aligned with x from its channels on: [C, 1, ...] or [C, D1, ...]. Where x is in blocks of
// channels, the channels of one are its last dim: [C / b, 1, ..., b].
TensorDesc statistic_of(const TensorDesc& x, bool spatial) {
  Dims dims(x.dims.begin() + std::min(x.rank(), 1), x.dims.end());
  if (spatial) std::fill(dims.begin() + std::min<std::size_t>(dims.size(), 1), dims.end(), 1);
  if (x.channel_block > 1) {
    dims[0] /= x.channel_block;
    dims.push_back(x.channel_block);
  }
  return TensorDesc::packed(DataType::f64, dims);
}

TensorDesc without_blocks(const TensorDesc& x) { return x.channel_block == 1 ? x : blocks_as_dim(x, x.channel_block); }

// Mean and population variance of the batch for every statistic.
template <class T>
void batch_moments(const BroadcastLoop& loop, const T* x, std::int64_t elements, std::int64_t statistics, double* mean,
                   double* variance) {
  const std::int64_t each = elements / std::max<std::int64_t>(statistics, 1);
  const auto count = static_cast<double>(each);
  const auto sum = [&](double* sums, auto&& term) {
    std::fill_n(sums, statistics, 0.0);
    loop.run(0, elements, [&](const std::int64_t* at, std::int64_t run) {
      for (std::int64_t i = 0; i < run; ++i) {
        const std::int64_t s = at[1] + i * loop.inner_stride(1);
        sums[s] += term(static_cast<double>(x[at[0] + i * loop.inner_stride(0)]), s);
      }
    });
    for (std::int64_t s = 0; s < statistics; ++s) sums[s] /= count;
  };
  sum(mean, [](double value, std::int64_t) { return value; });
  sum(variance, [&](double value, std::int64_t s) { return (value - mean[s]) * (value - mean[s]); });
}

// What is computed of each element.
template <class C>
struct Affine {
  const C* scale;
  const C* shift;
  C least, most;
  const RowFunctions* rows;  // null: there are none

  C operator()(C x, C a, C b) const { return bounded(x * a + b); }
  C bounded(C y) const { return y < least ? least : y > most ? most : y; }  // NaN stays
};

// `count` elements, whose statistics begin at `s` and lie `stride` apart, 0 or more. y is x or does not overlap it.
template <class T, class C>
void affine_row(const Affine<C>& f, const T* x, std::int64_t x_stride, std::int64_t s, std::int64_t stride, T* y,
                std::int64_t y_stride, std::int64_t count) {
  if constexpr (std::is_same_v<C, float>) {
    if (f.rows != nullptr && x_stride == 1 && y_stride == 1 && stride <= 1) {
      return f.rows->affine(float_type<T>, x, f.scale + s, f.shift + s, stride, f.least, f.most, y, count);
    }
    return in_f32(f.rows != nullptr, x, x_stride, y, y_stride, count,
                  [&](const float* from, float* to, std::int64_t offset, std::int64_t n) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      const std::int64_t at = s + (offset + i) * stride;
                      to[i] = f(from[i], f.scale[at], f.shift[at]);
                    }
                  });
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i * y_stride] = f(x[i * x_stride], f.scale[s + i * stride], f.shift[s + i * stride]);
    }
  }
}

// `count` positions of a block of B channels, several at once: a run along the channels alone would be too short to be
// worth its loop.
template <std::int64_t B, class T, class C>
void affine_positions(const Affine<C>& f, const T* x, std::int64_t s, T* y, std::int64_t count) {
  constexpr std::int64_t kTogether = 16;
  std::array<C, B * kTogether> scale, shift;
  const std::int64_t together = std::min(count, kTogether);
  for (std::int64_t i = 0; i < together; ++i) {
    std::copy_n(f.scale + s, B, scale.begin() + i * B);
    std::copy_n(f.shift + s, B, shift.begin() + i * B);
  }
  const Affine<C> repeated{scale.data(), shift.data(), f.least, f.most, f.rows};
  for (std::int64_t i = 0; i < count; i += together) {
    affine_row(repeated, x + i * B, 1, 0, 1, y + i * B, 1, std::min(together, count - i) * B);
  }
}

// A tensor that is packed in blocks of channels.
struct Blocked {
  std::int64_t block, per_sample, positions;  // blocks of a sample; spatial positions of a block
  explicit Blocked(const TensorDesc& x)
      : block(x.channel_block), per_sample(x.dims[1] / block), positions(x.elements() / (x.dims[0] * x.dims[1])) {}

  template <class T, class C>
  void run(const Affine<C>& f, const T* x, T* y, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t first = at / positions % per_sample * block;  // channel
      const std::int64_t count = std::min(end, (at / positions + 1) * positions) - at;
      const auto positions_of = block == 8 ? affine_positions<8, T, C> : affine_positions<16, T, C>;
      positions_of(f, x + at * block, first, y + at * block, count);
      at += count;
    }
  }
};

// How the elements of x and y are run through.
struct Elements {
  BroadcastLoop loop;  // of y, x and a statistic
  std::optional<Blocked> blocked;
  // Of channels last, scale and shift are repeated for some positions, which are then a row of their own. So are the
  // channels of an image that have few positions, with a scale and a shift for each.
  bool in_rows = false;
  std::int64_t each = 1;     // elements of a statistic that lie together in a row
  std::int64_t width = 1;    // of a row
  std::int64_t repeats = 1;  // rows at once

  Elements(const TensorDesc& x, const TensorDesc& y, const TensorDesc& statistic, bool spatial)
      : loop({without_blocks(y), without_blocks(x), statistic}) {
    const auto in_blocks = [&](const TensorDesc& desc) {
      return desc.channel_block > 1 && desc.elements() > 0 &&
             desc.is_packed(desc.channel_block == 8 ? Layout::nchw8c : Layout::nchw16c);
    };
    if (in_blocks(x) && in_blocks(y)) blocked = Blocked(x);
    constexpr std::int64_t kRow = 512, kFewPositions = 16;
    const std::int64_t count = statistic.elements();
    const auto packed = [&](Layout layout) { return x.is_packed(layout) && y.is_packed(layout); };
    const bool spreads = spatial && x.elements() > 0 && count > 1;
    const bool last = spreads && packed(Layout::nhwc);
    const std::int64_t positions = spreads ? x.elements() / (x.dims[0] * count) : 1;
    const bool few = spreads && packed(Layout::nchw) && positions <= kFewPositions && x.dims[0] > 1;
    if (few) each = positions;
    width = count * each;
    if (few || last) repeats = std::max<std::int64_t>(1, kRow / width);
    in_rows = few || repeats > 1;
  }

  template <class T, class C>
  void apply(const Affine<C>& f, const T* x, T* y, const ExecContext& context) const {
    if (in_rows) {
      return parallel_for(context, loop.elements() / width, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; at += repeats) {
          affine_row(f, x + at * width, 1, 0, 1, y + at * width, 1, std::min(repeats, end - at) * width);
        }
      });
    }
    if (blocked) {
      return parallel_for(context, loop.elements() / blocked->block, blocked->block,
                          [&](std::int64_t begin, std::int64_t end) { blocked->run(f, x, y, begin, end); });
    }
    parallel_for(context, loop.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
      loop.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
        affine_row(f, x + at[1], loop.inner_stride(1), at[2], loop.inner_stride(2), y + at[0], loop.inner_stride(0),
                   run);
      });
    });
  }
};

// What channels' elements are multiplied by and what is added to them, in f64 and rounded once; in[1] to in[4] are of
// T.
template <class T>
void affines(std::span<const void* const> in, std::int64_t count, double epsilon, float* scale, float* shift) {
  RowBuffer buffers[4];
  for (std::int64_t first = 0; first < count; first += kRowChunk) {
    const std::int64_t n = std::min(kRowChunk, count - first);
    const float* given[4];
    for (int k = 0; k < 4; ++k) {
      given[k] = load_row(true, static_cast<const T*>(in[k + 1]) + first, 1, n, buffers[k].data());
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const double a = static_cast<double>(given[0][i]) / std::sqrt(static_cast<double>(given[3][i]) + epsilon);
      scale[first + i] = static_cast<float>(a);
      shift[first + i] = static_cast<float>(static_cast<double>(given[1][i]) - static_cast<double>(given[2][i]) * a);
    }
  }
}

class BatchNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 5, 5, node.opset >= 14 ? 3 : 5));
    for (int i = 0; i < 5; ++i) CONVOY_CHECK(check_type(node, inputs, i, kMathFloats));
    CONVOY_TRY(const Parameters p, parameters_of(node));
    if (node.output_count > 1 && !p.training) return bad_node(node, "more than one output needs training_mode=1");
    const TensorDesc& x = inputs[0].desc;
    const Dims dims = statistic_of(x, p.spatial).dims;
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    for (int i = 1; i < 5; ++i) {
      if (inputs[i].desc.elements() != count) {
        return bad_node(node, fmt::format("input {} has {} elements, input 0 with dims [{}] needs {}", i,
                                          inputs[i].desc.elements(), to_string(x.dims), count));
      }
    }
    std::vector<TensorDesc> outputs;
    for (int i = 0; i < std::max(node.output_count, 1); ++i) {
      const TensorDesc& like = i == 0 ? x : inputs[i % 2 == 1 ? 3 : 4].desc;  // mean, var, saved_mean, saved_var
      CONVOY_TRY(TensorDesc desc, make_output(node, like.type, like.dims));
      outputs.push_back(std::move(desc));
    }
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const Parameters p, parameters_of(node));
    const TensorDesc& x = inputs[0].desc;
    const TensorDesc statistic = statistic_of(x, p.spatial);
    const std::int64_t count = statistic.elements();
    const BroadcastLoop moments({without_blocks(x), statistic});
    const Elements elements(x, outputs[0], statistic, p.spatial);
    const RowFunctions* const rows = row_functions(request.cpu.isa);
    std::vector<DataType> types;
    for (int i = 1; i < 5; ++i) types.push_back(inputs[i].desc.type);
    const bool floats = rows != nullptr && elements.each == 1 && x.type != DataType::f64 && !p.training &&
                        std::ranges::count(types, x.type) == 4;
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      using C = Compute<T>;
      // The workspace: mean and variance of the batch in double, then scale and shift.
      const std::size_t bytes =
          static_cast<std::size_t>(count) * (2 * sizeof(double) + 2 * elements.each * elements.repeats * sizeof(C));
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            double* mean = static_cast<double*>(context.workspace);
            double* variance = mean + count;
            C* scale = reinterpret_cast<C*>(variance + count);
            C* shift = scale + elements.width * elements.repeats;
            const auto given = [&](int input, std::int64_t i) {
              return load_as_double(types[input - 1], in[input], i);
            };
            if (p.training) {
              batch_moments(moments, static_cast<const T*>(in[0]), moments.elements(), count, mean, variance);
            }
            if constexpr (std::is_same_v<C, float>) {
              if (floats) affines<T>(in, count, p.epsilon, scale, shift);
            }
            for (std::int64_t i = 0; !floats && i < count; ++i) {
              const double m = p.training ? mean[i] : given(3, i);
              const double v = p.training ? variance[i] : given(4, i);
              const double a = given(1, i) / std::sqrt(v + p.epsilon);
              std::fill_n(scale + i * elements.each, elements.each, static_cast<C>(a));
              std::fill_n(shift + i * elements.each, elements.each, static_cast<C>(given(2, i) - m * a));
            }
            for (std::size_t k = 1; k < out.size(); ++k) {
              if (out[k] == nullptr) continue;
              const int input = k % 2 == 1 ? 3 : 4;
              const double* current = k % 2 == 1 ? mean : variance;
              const double keep = k < 3 ? p.momentum : 0;
              for (std::int64_t i = 0; i < count; ++i) {
                store_from_double(types[input - 1], out[k], i, given(input, i) * keep + current[i] * (1 - keep));
              }
            }
            for (std::int64_t i = elements.width; i < elements.width * elements.repeats; ++i) {
              scale[i] = scale[i - elements.width];
              shift[i] = shift[i - elements.width];
            }
            const Affine<C> f{scale, shift, static_cast<C>(p.least), static_cast<C>(p.most), rows};
            elements.apply(f, static_cast<const T*>(in[0]), static_cast<T*>(out[0]), context);
            return {};
          },
          bytes);
    });
  }
};

Taken layouts_of_batch_normalization(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  if (is_plain(layout)) return Taken::as_it_is;
  const auto p = parameters_of(node);
  return layouts::where(p.ok() && p->spatial && fills_blocks(inputs[0].desc, channel_block(layout)));
}

const BatchNormalization op_BatchNormalization;

}  // namespace

std::vector<OperatorRow> batch_normalization_rows() {
  return {{"BatchNormalization", &op_BatchNormalization, images::one_output, Rate::elements, values::mixed,
           in_place::first, layouts_of_batch_normalization, kMathFloats}};
}

}  // namespace convoy::ops
