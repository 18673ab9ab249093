// Operators along one axis: ArgMax, ArgMin, CumProd, CumSum.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/folds.h"
#include "ops/reduce/reduce.h"
#include "ops/reductions.h"
#include "ops/rows.h"
#include "ops/short_lines.h"

namespace convoy::ops {
namespace {

// ArgMax and ArgMin: the index of the first (or, with select_last_index, the last) extreme along the axis.
class ArgExtreme final : public Operator {
 public:
  constexpr explicit ArgExtreme(bool largest) : largest_(largest) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const std::vector<bool> axis, axis_of(node, inputs[0].desc));
    CONVOY_TRY(const std::int64_t keep_dims, node.integer("keepdims", 1));
    CONVOY_CHECK(last_of(node));
    return one_output(node, DataType::s64, reduced_dims(inputs[0].desc.dims, axis, keep_dims != 0));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<bool> axis, axis_of(node, inputs[0].desc));
    CONVOY_TRY(const std::int64_t last, node.integer("select_last_index", 0));
    const ReduceLoops loops(outputs[0], inputs[0].desc, axis);
    const Reductions* const vectors = reductions(request.cpu.isa);
    if (vectors != nullptr && is_of_short_lines(loops)) {
      if (auto plan = gathered_plan(node, loops, *vectors, last != 0, inputs[0].desc.type)) return plan;
    }
    return dispatch<kMathNumeric>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [loops, largest = largest_, last = last != 0, functions = vectors, type = inputs[0].desc.type,
           fold = fold_loops(request.cpu.isa, largest_ ? Fold::largest : Fold::smallest, inputs[0].desc.type)](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            const T* x = static_cast<const T*>(in[0]);
            auto* y = static_cast<std::int64_t*>(out[0]);
            const std::int64_t size = loops.reduced.elements(), stride = loops.reduced.inner_stride(0);
            parallel_for(context, loops.kept.elements(), size, [&](std::int64_t begin, std::int64_t end) {
              loops.kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                const std::int64_t to_stride = loops.kept.inner_stride(0), from_stride = loops.kept.inner_stride(1);
                if constexpr (has_row_functions<T>) {
                  if (functions != nullptr && size < kMostPositions && (from_stride == 1 || stride == 1)) {
                    return find_rows(*functions, largest, last, x + at[1], size, stride, y + at[0], to_stride, count,
                                     from_stride);
                  }
                }
                if constexpr (std::is_integral_v<T>) {
                  if (functions != nullptr && from_stride == 1 && to_stride == 1 && stride != 1) {
                    return find_columns(*functions, largest, last, type, x + at[1], size, stride, y + at[0], count);
                  }
                  if (stride == 1 && size >= kLongRow) {
                    for (std::int64_t i = 0; i < count; ++i) {
                      y[at[0] + i * to_stride] = find_whole(fold, x + at[1] + i * from_stride, size, last);
                    }
                    return;
                  }
                }
                for (std::int64_t i = 0; i < count; ++i) {
                  y[at[0] + i * loops.kept.inner_stride(0)] =
                      find(x + at[1] + i * loops.kept.inner_stride(1), size, stride, largest, last);
                }
              });
            });
            return {};
          });
    });
  }

 private:
  // Few lines lie beside each other and each is short, or they are rows shorter than a vector.
  static bool is_of_short_lines(const ReduceLoops& loops) {
    constexpr std::int64_t kFew = 16, kShort = 64, kShortRow = 12;
    const std::int64_t beside = loops.kept.inner_size(), size = loops.reduced.elements();
    const bool apart = loops.kept.elements() > beside && beside < kFew;
    return loops.kept.elements() >= kFew && size <= (apart ? kShort : kShortRow) &&
           (apart || loops.reduced.inner_stride(0) == 1);
  }

  // Of types that f32 holds; else null.
  std::unique_ptr<OpPlan> gathered_plan(const NodeDesc& node, const ReduceLoops& loops, const Reductions& functions,
                                        bool last, DataType type) const {
    constexpr TypeSet kHeld = only(DataType::f32) | kHalves | only(DataType::u8) | only(DataType::s8);
    if (!contains(kHeld, type)) return nullptr;
    return dispatch<kHeld>(type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [loops, functions, last, largest = largest_, offsets = offsets_of(loops.reduced, 0),
           together = lines_together(loops.kept, sizeof(T))](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            const auto size = static_cast<std::int64_t>(offsets.size()), run = loops.kept.inner_size();
            auto* const y = static_cast<std::int64_t*>(out[0]);
            parallel_for(context, loops.kept.elements() / run, size * run, [&](std::int64_t begin, std::int64_t end) {
              alignas(64) std::array<T, kShortElements> lines;
              alignas(64) std::array<float, kShortElements> wide;
              each_short_lines(loops.kept, begin * run, end * run, lines_at_once(size), [&](const LineStarts& starts) {
                const std::int64_t n = starts.count;
                const std::span<const std::int64_t> from(starts.of[1].data(), static_cast<std::size_t>(n));
                gather_lines(sizeof(T), in[0], from, together, offsets, lines.data());
                const void* values = lines.data();
                if constexpr (!has_row_functions<T>) values = load_row(true, lines.data(), 1, n * size, wide.data());
                std::array<float, kShortLines> places;
                functions.positions(largest, last, float_type<T>, values, n, size, places.data(), n);
                for (std::int64_t i = 0; i < n; ++i) y[starts.of[0][i]] = static_cast<std::int64_t>(places[i]);
              });
            });
            return {};
          });
    });
  }

  template <class T>
  static constexpr DataType float_type_or_f32 = is_half<T> ? row_type<T> : DataType::f32;

  template <class T>
  static std::int64_t find(const T* x, std::int64_t size, std::int64_t stride, bool largest, bool last) {
    using C = Compute<T>;
    std::int64_t found = 0;
    C best = static_cast<C>(x[0]);
    for (std::int64_t i = 1; i < size; ++i) {
      const C value = static_cast<C>(x[i * stride]);
      if ((largest ? value > best : value < best) || (last && value == best)) {
        best = value;
        found = i;
      }
    }
    return found;
  }

  static constexpr std::int64_t kLongRow = 32;

  // Of a row of integers: the extreme, then where it is.
  template <class T>
  static std::int64_t find_whole(const FoldLoops& fold, const T* x, std::int64_t size, bool last) {
    std::int64_t made;
    fold.start(&made, 1);
    fold.rows(x, size, 1, size, &made);
    const auto extreme = static_cast<T>(made);
    if (last) {
      std::int64_t i = size - 1;
      while (i > 0 && x[i] != extreme) --i;
      return i;
    }
    if constexpr (sizeof(T) == 1) {
      return static_cast<const T*>(
                 std::memchr(x, static_cast<unsigned char>(extreme), static_cast<std::size_t>(size))) -
             x;
    } else {
      return std::find(x, x + size, extreme) - x;
    }
  }

  // Where columns of integers have theirs. Few whose rows follow one another are more of some rows as one.
  template <class T>
  static void find_columns(const Reductions& functions, bool largest, bool last, DataType type, const T* x,
                           std::int64_t size, std::int64_t stride, std::int64_t* y, std::int64_t count) {
    constexpr std::int64_t kWide = 64 / static_cast<std::int64_t>(sizeof(T)), kLeast = 4;
    const std::int64_t times = kWide / count, rows = times == 0 ? 0 : size / times;
    if (stride != count || times < 2 || rows < kLeast) {
      return functions.whole_positions(largest, last, type, x, stride, size, y, count);
    }
    std::array<std::int64_t, kWide> places;
    functions.whole_positions(largest, last, type, x, times * count, rows, places.data(), times * count);
    for (std::int64_t c = 0; c < count; ++c) {
      std::int64_t found = places[c] * times;
      const auto join = [&](std::int64_t row) {
        const T value = x[row * count + c], best = x[found * count + c];
        const bool beyond = last ? row > found : row < found;
        if ((largest ? value > best : value < best) || (value == best && beyond)) found = row;
      };
      for (std::int64_t t = 1; t < times; ++t) join(places[t * count + c] * times + t);
      for (std::int64_t row = rows * times; row < size; ++row) join(row);
      y[c] = found;
    }
  }

  // The extremes of `count` lines of `size` elements, of which either these or the lines are neighbours.
  template <class T>
  static void find_rows(const Reductions& functions, bool largest, bool last, const T* x, std::int64_t size,
                        std::int64_t stride, std::int64_t* y, std::int64_t y_stride, std::int64_t count,
                        std::int64_t x_stride) {
    if (stride == 1) {
      for (std::int64_t i = 0; i < count; ++i) {
        y[i * y_stride] = functions.position(largest, last, float_type<T>, x + i * x_stride, size);
      }
      return;
    }
    RowBuffer places;
    for (std::int64_t start = 0; start < count; start += kRowChunk) {
      const std::int64_t n = std::min(kRowChunk, count - start);
      functions.positions(largest, last, float_type<T>, x + start, stride, size, places.data(), n);
      for (std::int64_t i = 0; i < n; ++i) y[(start + i) * y_stride] = static_cast<std::int64_t>(places[i]);
    }
  }

  static Result<void> last_of(const NodeDesc& node) {
    const auto last = node.integer("select_last_index", 0);
    if (!last.ok()) return last.error();
    return {};
  }

  static Result<std::vector<bool>> axis_of(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    if (x.rank() == 0 && (given == 0 || given == -1)) return std::vector<bool>{};
    CONVOY_TRY(const int axis, normalize_axis(node, given, x.rank(), "axis"));
    if (x.dims[axis] == 0) return bad_node(node, fmt::format("input 0 has size 0 along axis {}", axis));
    std::vector<bool> reduced(x.rank(), false);
    reduced[axis] = true;
    return reduced;
  }

  bool largest_;
};

template <class Number>
struct Plus {
  static constexpr Number start = 0;
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};
template <class Number>
struct Product {
  static constexpr Number start = 1;
  template <class V>
  V operator()(V a, V b) const {
    return a * b;
  }
};

// CumSum, CumProd: y[i] = sum or product of x[0..i] along the axis; without x[i] itself if exclusive, from the end if
// reverse.
class Cumulative final : public Operator {
 public:
  explicit constexpr Cumulative(bool product) : product_(product) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
    for (const char* name : {"exclusive", "reverse"}) {
      if (auto value = node.integer(name, 0); !value.ok()) return value.error();
    }
    if (inputs[1].desc.elements() != 1) return bad_node(node, "input 1 (axis) must be a scalar");
    if (inputs[0].desc.rank() == 0) return bad_node(node, "input 0 is a scalar, it needs an axis");
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t exclusive, node.integer("exclusive", 0));
    CONVOY_TRY(const std::int64_t reverse, node.integer("reverse", 0));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    return dispatch<kMathNumeric>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=, product = product_, axis_desc = inputs[1].desc](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            CONVOY_TRY(const int axis, normalize_axis(node, read_integers(axis_desc, in[1])[0], x.rank(), "axis"));
            std::vector<bool> along(x.rank(), false);
            along[axis] = true;
            if (x.elements() == 0) return {};
            const BroadcastLoop kept({cut(y, along, true), cut(x, along, true)});
            const std::int64_t size = x.dims[axis], from_step = x.strides[axis], to_step = y.strides[axis];
            parallel_for(context, kept.elements(), size, [&](std::int64_t begin, std::int64_t end) {
              kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                if constexpr (!is_float_element<T> || std::is_same_v<T, Compute<T>>) {
                  if (kept.inner_stride(0) == 1 && kept.inner_stride(1) == 1 && count > 1) {
                    // Short rows are read as they lie, the shortest where there are more than stay near: 331 floats a
                    // row took 0.7 of the time of columns, 79 0.65, 37 1.3 and 1147 1.1 (Zen 4).
                    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
                    const bool by_rows = bytes <= 2048 && (bytes >= 256 || size * bytes > (256 << 10));
                    const auto accumulate = by_rows ? accumulate_short_rows<T> : accumulate_long_rows<T>;
                    return accumulate(product, static_cast<const T*>(in[0]) + at[1], from_step,
                                      static_cast<T*>(out[0]) + at[0], to_step, size, count, exclusive != 0,
                                      reverse != 0);
                  }
                }
                for (std::int64_t i = 0; i < count; ++i) {
                  const T* from = static_cast<const T*>(in[0]) + at[1] + i * kept.inner_stride(1);
                  T* to = static_cast<T*>(out[0]) + at[0] + i * kept.inner_stride(0);
                  accumulate(product, from, from_step, to, to_step, size, exclusive != 0, reverse != 0);
                }
              });
            });
            return {};
          });
    });
  }

 private:
  // Of types that hold their sums and products as they are. Integers wrap around.
  template <class T>
  struct Sums {
    static constexpr std::int64_t N = 16 / sizeof(T);
    template <class U>
    struct Unsigned {
      using type = std::make_unsigned_t<U>;
    };
    using Number = typename std::conditional_t<is_float_element<T>, std::type_identity<T>, Unsigned<T>>::type;
    typedef Number Vector __attribute__((vector_size(16)));
  };

  // kVectors of neighbours in rows that lie along the axis: their sums stay in registers.
  template <int kVectors, class T, class Combine>
  static void accumulate_columns(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t size,
                                 bool exclusive, Combine combine) {
    using Vector = typename Sums<T>::Vector;
    constexpr std::int64_t N = Sums<T>::N;
    Vector sums[kVectors];
    for (Vector& sum : sums) sum = Vector{} + combine.start;
    for (std::int64_t k = 0; k < size; ++k, x += x_step, y += y_step) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Vector more;
        std::memcpy(&more, x + v * N, sizeof(more));
        const Vector before = sums[v];
        sums[v] = combine(before, more);
        const Vector made = exclusive ? before : sums[v];
        std::memcpy(y + v * N, &made, sizeof(made));
      }
    }
  }

  template <class T>
  static void accumulate_long_rows(bool product, const T* x, std::int64_t x_step, T* y, std::int64_t y_step,
                                   std::int64_t size, std::int64_t count, bool exclusive, bool reverse) {
    const std::int64_t at = reverse ? size - 1 : 0, sign = reverse ? -1 : 1;
    std::int64_t c = 0;
    const auto columns = [&]<int kVectors>(auto combine) {
      for (constexpr std::int64_t kCount = kVectors * Sums<T>::N; c + kCount <= count; c += kCount) {
        accumulate_columns<kVectors>(x + at * x_step + c, sign * x_step, y + at * y_step + c, sign * y_step, size,
                                     exclusive, combine);
      }
    };
    // Every pass waits for its additions, so that many columns take little longer than one.
    const auto all = [&](auto combine) {
      columns.template operator()<8>(combine);
      columns.template operator()<4>(combine);
      columns.template operator()<2>(combine);
      columns.template operator()<1>(combine);
      for (; c + 2 <= count; c += 2) {
        accumulate_two(x + at * x_step + c, sign * x_step, y + at * y_step + c, sign * y_step, size, exclusive,
                       combine);
      }
    };
    product ? all(Product<typename Sums<T>::Number>()) : all(Plus<typename Sums<T>::Number>());
    for (; c < count; ++c) accumulate(product, x + c, x_step, y + c, y_step, size, exclusive, reverse);
  }

  // Two neighbours in rows that lie along the axis.
  template <class T, class Combine>
  static void accumulate_two(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t size,
                             bool exclusive, Combine combine) {
    using Number = typename Sums<T>::Number;
    Number first = combine.start, second = combine.start;
    for (std::int64_t k = 0; k < size; ++k, x += x_step, y += y_step) {
      const Number before[] = {first, second};
      first = combine(first, static_cast<Number>(x[0]));
      second = combine(second, static_cast<Number>(x[1]));
      y[0] = static_cast<T>(exclusive ? before[0] : first);
      y[1] = static_cast<T>(exclusive ? before[1] : second);
    }
  }

  // Short rows of neighbours that lie along the axis: each is the one before it and one of x.
  template <class T>
  static void accumulate_short_rows(bool product, const T* x, std::int64_t x_step, T* y, std::int64_t y_step,
                                    std::int64_t size, std::int64_t count, bool exclusive, bool reverse) {
    using Number = typename Sums<T>::Number;
    const auto rows = [&](auto combine) {
      const std::int64_t sign = reverse ? -1 : 1, first = reverse ? size - 1 : 0;
      const T* from = x + first * x_step;
      T* to = y + first * y_step;
      if (exclusive) {
        std::fill_n(to, count, static_cast<T>(combine.start));
      } else if (from != to) {
        std::copy_n(from, count, to);
      }
      for (std::int64_t k = 1; k < size; ++k) {
        const T* const before = to;
        if (!exclusive) from += sign * x_step;
        to += sign * y_step;
#pragma GCC ivdep  // x is y or does not overlap it
        for (std::int64_t i = 0; i < count; ++i) {
          to[i] = static_cast<T>(combine(static_cast<Number>(before[i]), static_cast<Number>(from[i])));
        }
        if (exclusive) from += sign * x_step;
      }
    };
    product ? rows(Product<Number>()) : rows(Plus<Number>());
  }

  template <class T>
  static void accumulate(bool product, const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t size,
                         bool exclusive, bool reverse) {
    using Sum = std::conditional_t<is_float_element<T>, std::conditional_t<std::is_same_v<T, double>, double, float>,
                                   std::uint64_t>;
    Sum sum = product ? 1 : 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int64_t i = reverse ? size - 1 - k : k;
      const Sum value = static_cast<Sum>(static_cast<Compute<T>>(x[i * x_step]));
      if (exclusive) y[i * y_step] = static_cast<T>(sum);
      sum = product ? sum * value : sum + value;
      if (!exclusive) y[i * y_step] = static_cast<T>(sum);
    }
  }

  bool product_;
};

const ArgExtreme op_ArgMax(true);
const ArgExtreme op_ArgMin(false);
const Cumulative op_CumProd(true);
const Cumulative op_CumSum(false);

int in_place_unless_exclusive(const NodeDesc& node) {
  const Result<std::int64_t> exclusive = node.integer("exclusive", 0);
  return exclusive.ok() && *exclusive == 0 ? 0 : -1;
}

}  // namespace

std::vector<OperatorRow> along_axis_rows() {
  return {{"ArgMax", &op_ArgMax, images::along_first, Rate::reductions, values::mixed, in_place::never, layouts::plain,
           kMathNumeric},
          {"ArgMin", &op_ArgMin, images::along_first, Rate::reductions, values::mixed, in_place::never, layouts::plain,
           kMathNumeric},
          {"CumProd", &op_CumProd, images::mixed, Rate::others, values::mixed, in_place_unless_exclusive,
           layouts::plain, kMathNumeric},
          {"CumSum", &op_CumSum, images::mixed, Rate::others, values::mixed, in_place_unless_exclusive, layouts::plain,
           kMathNumeric}};
}

}  // namespace convoy::ops
