// Normalisation over any axes: MeanVarianceNormalization, y = (x - mean) / (deviation + 1e-9) over `axes`, and
// LpNormalization, y = x / norm along one axis (0 where the norm is 0).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"
#include "ops/rows.h"

namespace convoy::ops {
namespace {

// Of a group of elements y is (x - center) * factor.
struct Affine {
  double center = 0;
  double factor = 1;
};

struct Sums {
  double sum = 0, squares = 0;  // of x - center
};

struct MeanVariance {
  static Result<std::vector<bool>> axes(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::vector<std::int64_t> given, node.integers("axes", {0, 2, 3}));
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, x.rank()));
    std::vector<bool> marks(x.rank(), false);
    for (const int axis : axes) marks[axis] = true;
    return marks;
  }
  static Result<MeanVariance> make(const NodeDesc&) { return MeanVariance{}; }
  static constexpr bool kCentered = true;  // the sums around the mean are needed, too
  bool absolute() const { return false; }
  // From the sums around `center`.
  Affine operator()(const Sums& sums, double center, double count) const {
    const double off = sums.sum / count;
    return {center + off, 1 / (std::sqrt(std::max(0.0, sums.squares / count - off * off)) + 1e-9)};
  }
};

struct LpNorm {
  std::int64_t p = 2;
  static Result<std::vector<bool>> axes(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", -1));
    CONVOY_TRY(const int axis, normalize_axis(node, given, x.rank(), "axis"));
    std::vector<bool> marks(x.rank(), false);
    marks[axis] = true;
    return marks;
  }
  static Result<LpNorm> make(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p != 1 && p != 2) return bad_node(node, fmt::format("p={}, it must be 1 or 2", p));
    return LpNorm{p};
  }
  static constexpr bool kCentered = false;
  bool absolute() const { return p == 1; }  // what is summed is |x|
  Affine operator()(const Sums& sums, double, double) const {
    const double norm = p == 1 ? sums.sum : std::sqrt(sums.squares);
    return {0, norm == 0 ? 0 : 1 / norm};
  }
};

template <class F>
class NormalizeOverAxes final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    if (auto axes = F::axes(node, inputs[0].desc); !axes.ok()) return axes.error();
    if (auto f = F::make(node); !f.ok()) return f.error();
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<bool> axes, F::axes(node, inputs[0].desc));
    CONVOY_TRY(const F f, F::make(node));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    const BroadcastLoop kept({cut(y, axes, true), cut(x, axes, true)});
    const BroadcastLoop group({cut(y, axes, false), cut(x, axes, false)});
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [f, kept, group, vectors = has_row_vectors(request)](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            parallel_for(context, kept.elements(), group.elements() * 4, [&](std::int64_t begin, std::int64_t end) {
              kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                const Groups<T> groups{
                    f, kept, group, vectors, static_cast<const T*>(in[0]) + at[1], static_cast<T*>(out[0]) + at[0]};
                groups.normalize(count);
              });
            });
            return {};
          });
    });
  }

 private:
  // Groups whose first elements are neighbours in the order of `kept`, from x and y on.
  template <class T>
  struct Groups {
    using C = Compute<T>;
    static constexpr bool kInF32 = std::is_same_v<C, float>;
    const F& f;
    const BroadcastLoop &kept, &group;
    bool vectors;
    const T* x;
    T* y;

    void normalize(std::int64_t count) const {
      const std::int64_t from = kept.inner_stride(1), to = kept.inner_stride(0);
      if constexpr (kInF32) {
        // Rows of groups beside each other, where elements of one are not.
        if (vectors && from == 1 && to == 1 && count > 1 && group.inner_stride(1) != 1) {
          for (std::int64_t i = 0; i < count; i += kRowChunk) columns(i, std::min(kRowChunk, count - i));
          return;
        }
      }
      for (std::int64_t i = 0; i < count; ++i) row(x + i * from, y + i * to);
    }

    Sums sums_around(double center, const T* from) const {
      Sums sums;
      RowBuffer buffer;
      group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t count) {
        const std::int64_t stride = group.inner_stride(1);
        const T* const line = from + at[1];
        if constexpr (kInF32) {
          for (std::int64_t i = 0; vectors && stride == 1 && i < count; i += kRowChunk) {
            const std::int64_t n = std::min(kRowChunk, count - i);
            const float* values = load_row(true, line + i, 1, n, buffer.data());
            if (f.absolute()) {
              for (std::int64_t k = 0; k < n; ++k) buffer[k] = std::abs(values[k]);
              sums.sum += avx2::sum_row(buffer.data(), n);
            } else {
              const avx2::RowSums more = avx2::sums_row(values, center, n);
              sums.sum += more.sum;
              sums.squares += more.squares;
            }
          }
          if (vectors && stride == 1) return;
        }
        for (std::int64_t i = 0; i < count; ++i) {
          const double value = static_cast<double>(static_cast<C>(line[i * stride])) - center;
          sums.sum += f.absolute() ? std::abs(value) : value;
          sums.squares += value * value;
        }
      });
      return sums;
    }

    void row(const T* from, T* to) const {
      const auto number = static_cast<double>(group.elements());
      Affine affine = f(sums_around(0, from), 0, number);
      if (F::kCentered) affine = f(sums_around(affine.center, from), affine.center, number);
      const auto center = static_cast<C>(affine.center), factor = static_cast<C>(affine.factor);
      group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t count) {
        apply(from + at[1], group.inner_stride(1), to + at[0], group.inner_stride(0), count,
              [=](std::int64_t, C value) { return (value - center) * factor; });
      });
    }

    // y[i] = map(i, x[i]), a row of it.
    template <class Map>
    void apply(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t count,
               Map map) const {
      if constexpr (kInF32) {
        in_f32(vectors, from, from_stride, to, to_stride, count,
               [&](const float* in, float* out, std::int64_t offset, std::int64_t n) {
#pragma GCC ivdep
                 for (std::int64_t i = 0; i < n; ++i) out[i] = map(offset + i, in[i]);
               });
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          to[i * to_stride] = T(map(i, static_cast<C>(from[i * from_stride])));
        }
      }
    }

    void columns(std::int64_t first, std::int64_t count) const {
      const auto number = static_cast<double>(group.elements());
      RowBuffer centers{}, factors;
      const auto each_row = [&](auto&& take) {
        RowBuffer buffer;
        group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t run) {
          for (std::int64_t r = 0; r < run; ++r) {
            const T* const line = x + first + at[1] + r * group.inner_stride(1);
            take(load_row(true, line, 1, count, buffer.data()), buffer.data());
          }
        });
      };
      for (int pass = 0; pass < (F::kCentered ? 2 : 1); ++pass) {
        std::array<double, kRowChunk> sums{}, squares{};
        each_row([&](const float* values, float* buffer) {
          if (f.absolute()) {
            for (std::int64_t i = 0; i < count; ++i) buffer[i] = std::abs(values[i]);
            avx2::add_row(buffer, sums.data(), count);
          } else {
            avx2::add_row(values, centers.data(), sums.data(), squares.data(), count);
          }
        });
        for (std::int64_t i = 0; i < count; ++i) {
          const Affine affine = f({sums[i], squares[i]}, static_cast<double>(centers[i]), number);
          centers[i] = static_cast<float>(affine.center);
          factors[i] = static_cast<float>(affine.factor);
        }
      }
      group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t run) {
        for (std::int64_t r = 0; r < run; ++r) {
          apply(x + first + at[1] + r * group.inner_stride(1), 1, y + first + at[0] + r * group.inner_stride(0), 1,
                count, [&](std::int64_t i, float value) { return (value - centers[i]) * factors[i]; });
        }
      });
    }
  };
};

const NormalizeOverAxes<MeanVariance> op_MeanVarianceNormalization;
const NormalizeOverAxes<LpNorm> op_LpNormalization;

}  // namespace

std::vector<OperatorRow> normalization_over_axes_rows() {
  return {{"MeanVarianceNormalization", &op_MeanVarianceNormalization, images::mean_variance,
           Rate::channel_normalizations, values::mixed, in_place::first, layouts::plain, kMathFloats},
          {"LpNormalization", &op_LpNormalization, images::along_last, Rate::functions, values::mixed, in_place::first,
           layouts::plain, kMathFloats}};
}

}  // namespace convoy::ops
