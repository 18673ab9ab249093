// Normalisation over any axes: MeanVarianceNormalization, y = (x - mean) / (deviation + 1e-9) over `axes`, and
// LpNormalization, y = x / norm along one axis (0 where the norm is 0).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/norm/short_rows.h"
#include "ops/operator_row.h"
#include "ops/reduce/folds.h"
#include "ops/reduce/reduce.h"
#include "ops/row_functions.h"
#include "ops/rows.h"

namespace convoy::ops {
namespace {

// Few groups lie beside each other and each is short, those in rows shorter yet, or all are rows shorter than a vector.
bool is_of_short_lines(const BroadcastLoop& kept, const BroadcastLoop& group) {
  constexpr std::int64_t kFew = 16, kShort = 64, kLongRow = 64;
  const std::int64_t size = group.elements(), beside = kept.inner_size();
  if (size == 0 || kept.elements() < kFew) return false;
  const bool apart = kept.elements() > beside && beside < kFew, is_row = group.inner_stride(0) == 1;
  const bool in_pieces = is_row && group.inner_size() < kFew && group.inner_size() < size;
  const bool in_rows = is_row && group.inner_size() >= kFew;
  if (kept.inner_stride(1) == 1 && beside >= kLongRow) return false;  // vectors take these as they lie
  return size <= (in_pieces ? kLongestShort : !apart ? kLongestShortRow : in_rows ? kShort : kLongestShort);
}

// Lines side by side as they are and in f32, `count` of `size` elements: element e of line i is at e * count + i.
template <class T>
struct ShortLines {
  const T* elements;
  const float* values;
  std::int64_t size, count;
};

// make(lines, made) computes y of the lines of groups in f32, which are `from` and `to` in x and y. `made` may be the
// lines' values.
template <class T, class Make>
std::unique_ptr<OpPlan> gathered_plan(const NodeDesc& node, const BroadcastLoop& kept, std::vector<std::int64_t> from,
                                      std::vector<std::int64_t> to, Make make) {
  return make_plan(
      node,
      [kept, from = std::move(from), to = std::move(to), make, together = lines_together(kept, sizeof(T))](
          std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
        const auto size = static_cast<std::int64_t>(from.size()), run = kept.inner_size();  // runs stay whole
        parallel_for(context, kept.elements() / run, size * run * 4, [&](std::int64_t begin, std::int64_t end) {
          alignas(64) std::array<T, kShortElements> memory;
          alignas(64) std::array<float, kShortElements> wide;
          each_short_lines(kept, begin * run, end * run, lines_at_once(size), [&](const LineStarts& starts) {
            const std::int64_t n = starts.count;
            const auto count = static_cast<std::size_t>(n);
            gather_lines(sizeof(T), in[0], {starts.of[1].data(), count}, together, from, memory.data());
            const float* const values = load_row(true, memory.data(), 1, n * size, wide.data());
            make(ShortLines<T>{memory.data(), values, size, n}, wide.data());
            const void* lines = wide.data();
            if constexpr (is_half<T>) {
              store_row(true, wide.data(), n * size, memory.data(), 1);
              lines = memory.data();
            }
            scatter_lines(sizeof(T), lines, {starts.of[0].data(), count}, to, out[0]);
          });
        });
        return {};
      });
}

class LpNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(axis_of(node, inputs[0].desc));
    CONVOY_CHECK(fold_of(node));
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    CONVOY_TRY(const std::vector<bool> axis, axis_of(node, x));
    CONVOY_TRY(const Fold fold, fold_of(node));
    const BroadcastLoop kept({cut(y, axis, true), cut(x, axis, true)});
    const BroadcastLoop group({cut(x, axis, false), cut(y, axis, false)});
    if (group.elements() == 1) {
      return plan_of_singles(
          node, x, y, [](const Value& of) { return elements::select(of, of / elements::absolute(of), 0); }, request);
    }
    const FoldLoops folds = fold_loops(request.cpu.isa, fold, x.type);
    const FoldLoops in_c = fold_loops(request.cpu.isa, fold, x.type == DataType::f64 ? DataType::f64 : DataType::f32);
    const Finish finish = fold == Fold::squares ? Finish::root : Finish::as_it_is;
    if (has_row_vectors(request) && x.type != DataType::f64 && is_of_short_lines(kept, group)) {
      return dispatch<only(DataType::f32) | kHalves>(x.type, [&]<class T>(Tag<T>) {
        return gathered_plan<T>(node, kept, offsets_of(group, 0), offsets_of(group, 1),
                                [=](const ShortLines<T>& lines, float* made) {
                                  alignas(64) std::array<double, kShortLines> sums;
                                  alignas(64) std::array<float, kShortLines> factors;
                                  const std::int64_t n = lines.count;
                                  folds.start(sums.data(), n);
                                  folds.columns(lines.elements, n, lines.size, n, sums.data());
                                  in_c.finish(finish, sums.data(), n, lines.size, factors.data());
                                  invert(factors.data(), n);
                                  for (std::int64_t e = 0; e < lines.size; ++e) {
#pragma GCC ivdep  // one is the other, or does not overlap it
                                    for (std::int64_t i = 0; i < n; ++i) {
                                      made[e * n + i] = lines.values[e * n + i] * factors[i];
                                    }
                                  }
                                });
      });
    }
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [=, functions = row_functions(request.cpu.isa)](auto in, auto out,
                                                                       const ExecContext& context) -> Result<void> {
                         constexpr std::int64_t kMost = 512;
                         const std::int64_t from_step = kept.inner_stride(1), to_step = kept.inner_stride(0),
                                            size = group.elements();
                         parallel_for(context, kept.elements(), size * 4, [&](std::int64_t begin, std::int64_t end) {
                           std::array<double, kMost> sums;
                           std::array<Compute<T>, kMost> factors;
                           kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                             for (std::int64_t i = 0; i < count; i += kMost) {
                               const std::int64_t n = std::min(kMost, count - i);
                               const T* const from = static_cast<const T*>(in[0]) + at[1] + i * from_step;
                               folds.start(sums.data(), n);
                               take_in(folds, group, x.type, from, from_step, n, sums.data());
                               in_c.finish(finish, sums.data(), n, size, factors.data());
                               invert(factors.data(), n);
                               const Lines<T> lines{
                                   functions, group, from, from_step, static_cast<T*>(out[0]) + at[0] + i * to_step,
                                   to_step};
                               lines.scale(factors.data(), n);
                             }
                           });
                         });
                         return {};
                       });
    });
  }

 private:
  // What nothing but zeros has stays 0.
  template <class C>
  static void invert(C* norms, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) norms[i] = norms[i] == 0 ? 0 : 1 / norms[i];
  }

  // Groups from x and y on, whose first elements are steps apart.
  template <class T>
  struct Lines {
    const RowFunctions* functions;
    const BroadcastLoop& group;
    const T* x;
    std::int64_t x_step;
    T* y;
    std::int64_t y_step;

    void scale(const Compute<T>* factors, std::int64_t count) const {
      const std::int64_t from = group.inner_stride(0), to = group.inner_stride(1), size = group.elements();
      if (from == 1 && to == 1) {
        for (std::int64_t k = 0; k < count; ++k) row(x + k * x_step, 1, y + k * y_step, 1, factors + k, 0, size);
      } else {
        for (std::int64_t r = 0; r < size; ++r) row(x + r * from, x_step, y + r * to, y_step, factors, 1, count);
      }
    }

    void row(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, const Compute<T>* factors,
             std::int64_t step, std::int64_t count) const {
      if constexpr (has_row_functions<T>) {
        if (functions != nullptr && from_step == 1 && to_step == 1) {
          constexpr float kAny = std::numeric_limits<float>::infinity();
          static constexpr std::array<float, 512> kZeros{};
          return functions->affine(float_type<T>, from, factors, kZeros.data(), step, -kAny, kAny, to, count);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) {
        to[i * to_step] = T(static_cast<Compute<T>>(from[i * from_step]) * factors[i * step]);
      }
    }
  };

  static Result<std::vector<bool>> axis_of(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", -1));
    CONVOY_TRY(const int axis, normalize_axis(node, given, x.rank(), "axis"));
    std::vector<bool> marks(x.rank(), false);
    marks[axis] = true;
    return marks;
  }
  static Result<Fold> fold_of(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p != 1 && p != 2) return bad_node(node, fmt::format("p={}, it must be 1 or 2", p));
    return p == 1 ? Fold::magnitudes : Fold::squares;
  }
};

class MeanVarianceNormalization final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(axes_of(node, inputs[0].desc));
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<bool> axes, axes_of(node, inputs[0].desc));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    const BroadcastLoop kept({cut(y, axes, true), cut(x, axes, true)});
    const BroadcastLoop group({cut(y, axes, false), cut(x, axes, false)});
    if (group.elements() == 1) {  // 0, unless it is no number
      return plan_of_singles(
          node, x, y, [](const Value& of) { return of - of; }, request);
    }
    const bool vectors = has_row_vectors(request);
    if (vectors && x.type != DataType::f64 && is_of_short_lines(kept, group)) {
      return dispatch<only(DataType::f32) | kHalves>(x.type, [&]<class T>(Tag<T>) {
        return gathered_plan<T>(node, kept, offsets_of(group, 1), offsets_of(group, 0),
                                [](const ShortLines<T>& lines, float* made) { normalize_lines(lines, made); });
      });
    }
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [kept, group, vectors, functions = row_functions(request.cpu.isa)](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            parallel_for(context, kept.elements(), group.elements() * 4, [&](std::int64_t begin, std::int64_t end) {
              kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                const Groups<T> groups{kept,
                                       group,
                                       vectors,
                                       functions,
                                       static_cast<const T*>(in[0]) + at[1],
                                       static_cast<T*>(out[0]) + at[0]};
                groups.normalize(count);
              });
            });
            return {};
          });
    });
  }

 private:
  template <class T>
  static void normalize_lines(const ShortLines<T>& lines, float* made) {
    const std::int64_t n = lines.count;
    LineMoments moments;
    moments_of_lines(lines.values, lines.size, n, moments);
    alignas(64) std::array<float, kShortLines> center, factor;
    for (std::int64_t i = 0; i < n; ++i) {
      center[i] = static_cast<float>(moments.mean[i]);
      factor[i] = static_cast<float>(1 / (std::sqrt(moments.variance[i]) + 1e-9));
    }
    for (std::int64_t e = 0; e < lines.size; ++e) {
      const float* const line = lines.values + e * n;
      float* const to = made + e * n;
#pragma GCC ivdep  // one is the other, or does not overlap it
      for (std::int64_t i = 0; i < n; ++i) to[i] = (line[i] - center[i]) * factor[i];
    }
  }

  static Result<std::vector<bool>> axes_of(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::vector<std::int64_t> given, node.integers("axes", {0, 2, 3}));
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, x.rank()));
    std::vector<bool> marks(x.rank(), false);
    for (const int axis : axes) marks[axis] = true;
    return marks;
  }

  // Of a group of elements y is (x - center) * factor.
  struct Affine {
    double center = 0;
    double factor = 1;
  };
  struct Sums {
    double sum = 0, squares = 0;  // of x - center
  };
  // From the sums around `center`.
  static Affine affine_of(const Sums& sums, double center, double count) {
    const double off = sums.sum / count;
    return {center + off, 1 / (std::sqrt(std::max(0.0, sums.squares / count - off * off)) + 1e-9)};
  }

  // Groups whose first elements are neighbours in the order of `kept`, from x and y on.
  template <class T>
  struct Groups {
    using C = Compute<T>;
    static constexpr bool kInF32 = std::is_same_v<C, float>;
    const BroadcastLoop &kept, &group;
    bool vectors;
    const RowFunctions* functions;
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
            const avx2::RowSums more = avx2::sums_row(values, center, n);
            sums.sum += more.sum;
            sums.squares += more.squares;
          }
          if (vectors && stride == 1) return;
        }
        for (std::int64_t i = 0; i < count; ++i) {
          const double value = static_cast<double>(static_cast<C>(line[i * stride])) - center;
          sums.sum += value;
          sums.squares += value * value;
        }
      });
      return sums;
    }

    // A group whose elements are held in f32, all pieces of it one behind the other. False where f32 may lose
    // something.
    bool held_row(const T* from, T* to) const {
      constexpr std::int64_t kMost = 4096;
      const std::int64_t size = group.elements();
      if (!vectors || group.inner_stride(1) != 1 || group.inner_stride(0) != 1 || size > kMost) return false;
      alignas(64) std::array<float, kMost> memory;
      const float* values = memory.data();
      std::int64_t held = 0;
      group.run(0, size, [&](const std::int64_t* at, std::int64_t count) {
        const float* const piece = load_row(true, from + at[1], 1, count, memory.data() + held);
        if (count == size) {
          values = piece;
        } else if (piece != memory.data() + held) {
          std::copy_n(piece, count, memory.data() + held);
        }
        held += count;
      });
      const RowMoments m = functions->moments(DataType::f32, values, nullptr, size);
      if (!(m.variance > 1e-10 && m.variance < 1e30)) return false;
      const auto center = static_cast<float>(m.mean), factor = static_cast<float>(1 / (std::sqrt(m.variance) + 1e-9));
      static constexpr float kOne = 1, kZero = 0;
      group.run(0, size, [&](const std::int64_t* at, std::int64_t count) {
        functions->normalize(values, center, factor, &kOne, &kZero, 0, float_type<T>, to + at[0], count);
        values += count;
      });
      return true;
    }

    void row(const T* from, T* to) const {
      if constexpr (kInF32) {
        if (held_row(from, to)) return;
      }
      const auto number = static_cast<double>(group.elements());
      Affine affine = affine_of(sums_around(0, from), 0, number);
      affine = affine_of(sums_around(affine.center, from), affine.center, number);
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

    // Rows of few that follow one another are taken as rows of several.
    void columns(std::int64_t first, std::int64_t count) const {
      const auto number = static_cast<double>(group.elements());
      const bool packed = group.inner_stride(0) == count && group.inner_stride(1) == count;
      const std::int64_t together = packed ? kRowChunk / count : 1;
      RowBuffer centers{}, factors;
      const auto each_row = [&](auto&& take) {  // take(from, to, elements)
        group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t run) {
          for (std::int64_t r = 0; r < run; r += together) {
            take(x + first + at[1] + r * group.inner_stride(1), y + first + at[0] + r * group.inner_stride(0),
                 std::min(together, run - r) * count);
          }
        });
      };
      for (int pass = 0; pass < 2; ++pass) {
        std::array<double, kRowChunk> sums{}, squares{};
        RowBuffer buffer;
        each_row([&](const T* from, T*, std::int64_t n) {
          avx2::add_row(load_row(true, from, 1, n, buffer.data()), centers.data(), sums.data(), squares.data(), n);
        });
        for (std::int64_t i = count; i < together * count; ++i) {
          sums[i % count] += sums[i];
          squares[i % count] += squares[i];
        }
        for (std::int64_t i = 0; i < count; ++i) {
          const Affine affine = affine_of({sums[i], squares[i]}, static_cast<double>(centers[i]), number);
          centers[i] = static_cast<float>(affine.center);
          factors[i] = static_cast<float>(affine.factor);
        }
        for (std::int64_t i = count; i < together * count; ++i) {
          centers[i] = centers[i - count];
          factors[i] = factors[i - count];
        }
      }
      each_row([&](const T* from, T* to, std::int64_t n) {
        apply(from, 1, to, 1, n, [&](std::int64_t i, float value) { return (value - centers[i]) * factors[i]; });
      });
    }
  };
};

const MeanVarianceNormalization op_MeanVarianceNormalization;
const LpNormalization op_LpNormalization;

}  // namespace

std::vector<OperatorRow> normalization_over_axes_rows() {
  return {{"MeanVarianceNormalization", &op_MeanVarianceNormalization, images::mean_variance,
           Rate::channel_normalizations, values::mixed, in_place::first, layouts::plain, kMathFloats},
          {"LpNormalization", &op_LpNormalization, images::along_last, Rate::functions, values::mixed, in_place::first,
           layouts::plain, kMathFloats}};
}

}  // namespace convoy::ops
