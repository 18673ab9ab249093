// ReduceSum and its kin. Floats are accumulated in double, integers in 64 bits that wrap.
#include "ops/reduce/reduce.h"

#include <array>
#include <cmath>
#include <limits>

#include "ops/from_real.h"
#include "ops/math_types.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/reductions.h"
#include "ops/row_functions.h"
#include "ops/rows.h"

namespace convoy::ops {

TensorDesc cut(TensorDesc desc, const std::vector<bool>& reduced, bool keep) {
  for (int d = 0; d < desc.rank(); ++d) {
    if (reduced[d] == keep) desc.dims[d] = 1;
  }
  return desc;
}

TensorDesc with_reduced_dims(const TensorDesc& output, const std::vector<bool>& reduced) {
  if (output.dims.size() == reduced.size()) return output;
  TensorDesc desc = output;
  desc.dims.clear();
  desc.strides.clear();
  for (std::size_t d = 0, at = 0; d < reduced.size(); ++d) {
    desc.dims.push_back(reduced[d] ? 1 : output.dims[at]);
    desc.strides.push_back(reduced[d] ? 0 : output.strides[at]);
    at += reduced[d] ? 0 : 1;
  }
  return desc;
}

ReduceLoops::ReduceLoops(const TensorDesc& output, const TensorDesc& input, const std::vector<bool>& reduced)
    : kept({with_reduced_dims(output, reduced), cut(input, reduced, true)}), reduced({cut(input, reduced, false)}) {}

Result<std::vector<bool>> reduced_axes(const NodeDesc& node, std::span<const Input> inputs, bool axes_are_input) {
  const int rank = inputs[0].desc.rank();
  std::vector<std::int64_t> axes;
  if (axes_are_input) {
    if (is_present(inputs, 1)) {
      CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
      CONVOY_TRY(axes, constant_integers(node, inputs, 1));
    }
  } else {
    CONVOY_TRY(axes, node.integers("axes", {}));
  }
  if (axes.empty()) {
    CONVOY_TRY(const std::int64_t noop, node.integer("noop_with_empty_axes", 0));
    return std::vector<bool>(rank, noop == 0);
  }
  CONVOY_TRY(const std::vector<int> normalized, normalize_axes(node, axes, rank));
  std::vector<bool> reduced(rank, false);
  for (const int axis : normalized) reduced[axis] = true;
  return reduced;
}

Dims reduced_dims(const Dims& dims, const std::vector<bool>& reduced, bool keep_dims) {
  Dims result;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!reduced[d]) result.push_back(dims[d]);
    if (reduced[d] && keep_dims) result.push_back(1);
  }
  return result;
}

namespace {

// What elements of T are reduced as: one of four types, so that ten reductions of fourteen types are forty loops.
template <class T>
using ValueOf = std::conditional_t<is_float_element<T>, std::conditional_t<std::is_same_v<T, double>, double, float>,
                                   std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

// What sums of values are held in and results are given as; an integer's bits are those of its type, extended.
template <class V>
using Wide = std::conditional_t<std::is_floating_point_v<V>, double, std::uint64_t>;

// What an integer can't be (the logarithm of a negative sum, of zero) becomes 0 or the nearest that it can.
template <class V>
Wide<V> rounded(double result) {
  if constexpr (std::is_floating_point_v<V>) return result;
  return static_cast<Wide<V>>(from_real<V>(result));
}

// How a tensor's elements become values and results become elements.
template <class V>
struct Elements {
  // `count` values from element `at` on, `stride` elements apart: in the buffer, or where they are.
  const V* (*load)(const void* x, std::int64_t at, std::int64_t stride, std::int64_t count, V* buffer);
  // `count` results, `stride` apart from element `at` of y on.
  void (*store)(void* y, std::int64_t at, std::int64_t stride, const Wide<V>* results, std::int64_t count);
  V lowest, highest;                       // of the element's type
  const RowFunctions* rows = nullptr;      // of floats: null where there are none
  DataType half = DataType::f32;           // f16 or bf16: what a run of elements is
  const Reductions* reductions = nullptr;  // where there are rows

  const void* at(const void* x, std::int64_t element) const {
    return static_cast<const char*>(x) + element * static_cast<std::int64_t>(size_of(half));
  }
};

template <class T, bool kVectors>
const ValueOf<T>* load(const void* x, std::int64_t at, std::int64_t stride, std::int64_t count, ValueOf<T>* buffer) {
  const T* from = static_cast<const T*>(x) + at;
  if constexpr (std::is_same_v<ValueOf<T>, float>) return load_row(kVectors, from, stride, count, buffer);
  if constexpr (std::is_same_v<T, ValueOf<T>>) {
    if (stride == 1) return from;
  }
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = static_cast<ValueOf<T>>(from[i * stride]);
  return buffer;
}

template <class T>
void store(void* y, std::int64_t at, std::int64_t stride, const Wide<ValueOf<T>>* results, std::int64_t count) {
  T* const to = static_cast<T*>(y) + at;
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(results[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<T>(results[i]);
  }
}

template <class T>
Elements<ValueOf<T>> elements_of(const RowFunctions* rows, const Reductions* reductions) {
  using V = ValueOf<T>;
  if constexpr (is_float_element<T>) {
    return {rows != nullptr ? load<T, is_half<T>> : load<T, false>,
            store<T>,
            -std::numeric_limits<V>::infinity(),
            std::numeric_limits<V>::infinity(),
            rows,
            is_half<T> ? float_type<T> : DataType::f32,
            reductions};
  } else {
    return {load<T, false>, store<T>, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
  }
}

// An accumulator takes values one by one, merges with another, and gives the result for `count` values. One whose rows
// and columns of floats reductions.h has, gives them as row() and columns(); it takes their results as it takes values.
template <class V>
struct SumOf {
  Wide<V> sum = 0;
  void add(V x) { sum += static_cast<Wide<V>>(x); }
  void add_row(const V* x, std::int64_t count) requires std::is_same_v<V, float> { sum += avx2::sum_row(x, count); }
  void add_result(double x) { sum += x; }
  void merge(const SumOf& other) { sum += other.sum; }
  Wide<V> finish(std::int64_t, const Elements<V>&) const { return sum; }
};

template <class V>
struct Sum : SumOf<V> {};

template <class V>
struct Mean : SumOf<V> {
  Wide<V> finish(std::int64_t count, const Elements<V>&) const {
    if constexpr (std::is_floating_point_v<V>) {
      return this->sum / static_cast<double>(count);
    } else {
      return count == 0 ? 0 : static_cast<Wide<V>>(static_cast<V>(this->sum) / static_cast<V>(count));
    }
  }
};

template <class V>
struct LogSum : SumOf<V> {
  Wide<V> finish(std::int64_t, const Elements<V>&) const {
    using Signed = std::conditional_t<std::is_floating_point_v<V>, double, V>;
    return rounded<V>(std::log(static_cast<double>(static_cast<Signed>(this->sum))));
  }
};

template <class V>
struct L1 : SumOf<V> {
  void add_row(const V* x, std::int64_t count) = delete;
  void add(V x) {
    if constexpr (std::is_floating_point_v<V>) {
      this->sum += std::abs(static_cast<double>(x));
    } else {
      this->sum += x < 0 ? -static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    }
  }
};

template <class V>
struct SumSquare : SumOf<V> {
  void add_row(const V* x, std::int64_t count) = delete;
  void add(V x) { this->sum += static_cast<Wide<V>>(x) * static_cast<Wide<V>>(x); }
};

template <class V>
struct L2 {
  double sum = 0;
  void add(V x) { sum += static_cast<double>(x) * static_cast<double>(x); }
  void merge(const L2& other) { sum += other.sum; }
  Wide<V> finish(std::int64_t, const Elements<V>&) const { return rounded<V>(std::sqrt(sum)); }
};

template <class V>
struct Prod {
  Wide<V> product = 1;
  void add(V x) { product *= static_cast<Wide<V>>(x); }
  void merge(const Prod& other) { product *= other.product; }
  Wide<V> finish(std::int64_t, const Elements<V>&) const { return product; }
};

// log(sum(exp(x))), relative to the largest x so far, so that nothing overflows.
template <class V>
struct LogSumExp {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  void add(V value) {
    const double x = static_cast<double>(value);
    if (x <= largest) {
      sum += x == largest ? 1 : std::exp(x - largest);
    } else {
      sum = sum * std::exp(largest - x) + 1;
      largest = x;
    }
  }
  static double row(const Reductions& r, DataType type, const void* x, std::int64_t count) {
    return r.log_sum_exp(type, x, count);
  }
  static void columns(const Reductions& r, DataType type, const void* x, std::int64_t step, std::int64_t size, float* y,
                      std::int64_t count) {
    r.log_sum_exps(type, x, step, size, y, count);
  }
  void add_result(double x) { merge({x, 1}); }
  void merge(const LogSumExp& other) {
    if (other.sum == 0) return;
    if (other.largest <= largest) {
      sum += other.sum * (other.largest == largest ? 1 : std::exp(other.largest - largest));
    } else {
      sum = other.sum + (sum == 0 ? 0 : sum * std::exp(largest - other.largest));
      largest = other.largest;
    }
  }
  Wide<V> finish(std::int64_t, const Elements<V>&) const { return rounded<V>(largest + std::log(sum)); }
};

// The largest, or with kSign = -1 the smallest; NaN wins. Of no values: the worst of the element's type.
template <class V, int kSign>
struct Extreme {
  static constexpr V start() {
    using Limits = std::numeric_limits<V>;
    if constexpr (std::is_floating_point_v<V>) return -kSign * Limits::infinity();
    return kSign > 0 ? Limits::lowest() : Limits::max();
  }
  V best = start();
  void add_integers(const V* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) best = (kSign > 0 ? x[i] > best : x[i] < best) ? x[i] : best;
  }
  void add(V x) { best = (kSign > 0 ? x > best : x < best) || x != x ? x : best; }
  static double row(const Reductions& r, DataType type, const void* x, std::int64_t count) {
    return static_cast<double>(r.extreme(kSign > 0, type, x, count));
  }
  static void rows(const Reductions& r, DataType type, const void* x, std::int64_t step, std::int64_t count,
                   std::int64_t size, float* y) {
    r.row_extremes(kSign > 0, type, x, step, count, size, y);
  }
  static void columns(const Reductions& r, DataType type, const void* x, std::int64_t step, std::int64_t size, float* y,
                      std::int64_t count) {
    r.extremes(kSign > 0, type, x, step, size, y, count);
  }
  void add_result(double x) { add(static_cast<V>(x)); }
  void merge(const Extreme& other) { add(other.best); }
  Wide<V> finish(std::int64_t count, const Elements<V>& elements) const {
    return static_cast<Wide<V>>(count > 0 ? best : kSign > 0 ? elements.lowest : elements.highest);
  }
};
template <class V>
using Max = Extreme<V, 1>;
template <class V>
using Min = Extreme<V, -1>;

// BroadcastLoop::run, compiled once.
using Run = FunctionRef<void(const std::int64_t* at, std::int64_t count)>;
[[gnu::noinline]] void run_through(const BroadcastLoop& loop, std::int64_t begin, std::int64_t end, Run body) {
  loop.run(begin, end, body);
}

// The sum of neighbouring halves, some thousands in f32 at a time: 32 sums of 64 elements, which keep their digits.
double sum_of_halves(const RowFunctions& rows, DataType type, const std::uint16_t* x, std::int64_t count) {
  constexpr std::int64_t kWidth = 32, kRows = 64;
  double sum = 0;
  for (std::int64_t start = 0; start < count; start += kWidth * kRows) {
    const std::int64_t n = std::min(kWidth * kRows, count - start), rest = n % kWidth;
    std::array<float, kWidth> sums{};
    rows.accumulate(type, x + start, kWidth, n / kWidth, sums.data(), kWidth);
    if (rest > 0) rows.accumulate(type, x + start + n - rest, kWidth, 1, sums.data(), rest);
    for (const float each : sums) sum += static_cast<double>(each);
  }
  return sum;
}

// One output element: runs along the reduced dims, in several lanes so that additions need not wait for each other.
template <class A, class V>
constexpr bool has_reductions = std::is_same_v<V, float>&& requires {
  &A::columns;
};

template <class A, class V>
A reduce_one(const BroadcastLoop& reduced, const Elements<V>& elements, const void* x, std::int64_t first) {
  constexpr std::int64_t kLanes = 8, kChunk = 512;
  std::array<A, kLanes> lanes;
  std::array<V, kChunk> buffer;
  const std::int64_t stride = reduced.inner_stride(0);
  const auto run = [&](std::int64_t from, std::int64_t size) {
    if constexpr (requires { lanes[0].add_row(buffer.data(), size); }) {
      if (elements.rows != nullptr && elements.half != DataType::f32 && stride == 1) {
        lanes[0].sum += sum_of_halves(*elements.rows, elements.half, static_cast<const std::uint16_t*>(x) + from, size);
        return;
      }
    }
    if constexpr (has_reductions<A, V>) {
      if (elements.reductions != nullptr && stride == 1 && size > 0) {
        const void* const row = elements.at(x, from);
        lanes[0].add_result(A::row(*elements.reductions, elements.half, row, size));
        return;
      }
    }
    for (std::int64_t start = 0; start < size; start += kChunk) {
      const std::int64_t count = std::min(kChunk, size - start);
      const V* values = elements.load(x, from + start * stride, stride, count, buffer.data());
      if constexpr (requires { lanes[0].add_row(values, count); }) {
        if (elements.rows != nullptr) {
          lanes[0].add_row(values, count);
          continue;
        }
      }
      if constexpr (std::is_integral_v<V> && requires { lanes[0].add_integers(values, count); }) {
        lanes[0].add_integers(values, count);
        continue;
      }
      std::int64_t i = 0;
      for (; i + kLanes <= count; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane].add(values[i + lane]);
      }
      for (; i < count; ++i) lanes[0].add(values[i]);
    }
  };
  if (reduced.inner_size() == reduced.elements()) {
    run(first, reduced.elements());
  } else {
    run_through(reduced, 0, reduced.elements(),
                [&](const std::int64_t* at, std::int64_t count) { run(first + at[0], count); });
  }
  for (int lane = 1; lane < kLanes; ++lane) lanes[0].merge(lanes[lane]);
  return lanes[0];
}

// Neighbouring output elements, some at once, where the input is contiguous along them.
template <class A, class V>
void reduce_neighbours(const BroadcastLoop& reduced, const Elements<V>& elements, const void* x, std::int64_t first,
                       void* y, std::int64_t to, std::int64_t to_stride, std::int64_t count) {
  constexpr std::int64_t kChunk = 128;
  std::array<V, kChunk> buffer;
  for (std::int64_t start = 0; start < count; start += kChunk) {
    const std::int64_t n = std::min(kChunk, count - start);
    std::array<A, kChunk> sums{};
    const auto each_row = [&](auto&& add) {
      run_through(reduced, 0, reduced.elements(), [&](const std::int64_t* at, std::int64_t run) {
        for (std::int64_t r = 0; r < run; ++r) {
          const std::int64_t from = first + start + at[0] + r * reduced.inner_stride(0);
          add(elements.load(x, from, 1, n, buffer.data()));
        }
      });
    };
    const bool rows = [&] {
      if constexpr (has_reductions<A, V>) {
        if (elements.reductions == nullptr) return false;
        run_through(reduced, 0, reduced.elements(), [&](const std::int64_t* at, std::int64_t run) {
          const void* const from = elements.at(x, first + start + at[0]);
          A::columns(*elements.reductions, elements.half, from, reduced.inner_stride(0), run, buffer.data(), n);
          for (std::int64_t i = 0; i < n; ++i) sums[i].add_result(static_cast<double>(buffer[i]));
        });
        return true;
      }
      if constexpr (requires { sums[0].add_row(buffer.data(), n); }) {
        if (elements.rows == nullptr) return false;
        constexpr std::int64_t kRows = 32;  // whose sums in f32 keep their digits
        std::array<double, kChunk> totals{};
        run_through(reduced, 0, reduced.elements(), [&](const std::int64_t* at, std::int64_t run) {
          const std::int64_t step = reduced.inner_stride(0);
          for (std::int64_t r = 0; r < run; r += kRows) {
            std::array<float, kChunk> some{};
            elements.rows->accumulate(elements.half, elements.at(x, first + start + at[0] + r * step), step,
                                      std::min(kRows, run - r), some.data(), n);
            for (std::int64_t i = 0; i < n; ++i) totals[i] += static_cast<double>(some[i]);
          }
        });
        for (std::int64_t i = 0; i < n; ++i) sums[i].sum = totals[i];
        return true;
      }
      return false;
    }();
    if (!rows) {
      each_row([&](const V* values) {
        for (std::int64_t i = 0; i < n; ++i) sums[i].add(values[i]);
      });
    }
    std::array<Wide<V>, kChunk> results;
    const std::int64_t terms = reduced.elements();
    for (std::int64_t i = 0; i < n; ++i) results[i] = sums[i].finish(terms, elements);
    elements.store(y, to + start * to_stride, to_stride, results.data(), n);
  }
}

// Of `count` outputs whose elements are rows: false where there is no such function.
template <class A, class V>
bool reduce_rows(const Elements<V>& elements, const void* x, std::int64_t from, std::int64_t step, std::int64_t size,
                 void* y, std::int64_t to, std::int64_t to_stride, std::int64_t count) {
  constexpr bool kSums = std::is_same_v<V, float> && requires(A a) { a.add_row(nullptr, 0); };
  constexpr bool kRows = std::is_same_v<V, float> && requires { &A::rows; };
  if constexpr (!kSums && !kRows) return false;
  if (elements.reductions == nullptr) return false;
  constexpr std::int64_t kChunk = 128;
  for (std::int64_t start = 0; start < count; start += kChunk) {
    const std::int64_t n = std::min(kChunk, count - start);
    const void* const rows = elements.at(x, from + start * step);
    std::array<std::conditional_t<kSums, double, float>, kChunk> found;
    if constexpr (kSums) elements.reductions->row_sums(elements.half, rows, step, n, size, found.data());
    if constexpr (kRows) A::rows(*elements.reductions, elements.half, rows, step, n, size, found.data());
    std::array<Wide<V>, kChunk> results;
    for (std::int64_t i = 0; i < n; ++i) {
      A of_row;
      if constexpr (kSums || kRows) of_row.add_result(static_cast<double>(found[i]));
      results[i] = of_row.finish(size, elements);
    }
    elements.store(y, to + start * to_stride, to_stride, results.data(), n);
  }
  return true;
}

template <class A, class V>
void reduce_all(const ReduceLoops& loops, const Elements<V>& elements, const void* x, void* y,
                const ExecContext& context) {
  const std::int64_t reduced = loops.reduced.elements();
  const bool neighbours = loops.kept.inner_stride(1) == 1 && loops.reduced.inner_stride(0) != 1 && reduced > 0;
  const bool rows = loops.reduced.inner_stride(0) == 1 && reduced > 0 && loops.reduced.inner_size() == reduced;
  const std::int64_t to_stride = loops.kept.inner_stride(0), from_stride = loops.kept.inner_stride(1);
  parallel_for(context, loops.kept.elements(), reduced, [&](std::int64_t begin, std::int64_t end) {
    run_through(loops.kept, begin, end, [&](const std::int64_t* at, std::int64_t count) {
      if (neighbours) {
        reduce_neighbours<A, V>(loops.reduced, elements, x, at[1], y, at[0], to_stride, count);
        return;
      }
      if (rows && reduce_rows<A>(elements, x, at[1], from_stride, reduced, y, at[0], to_stride, count)) return;
      for (std::int64_t i = 0; i < count; ++i) {
        const A sums = reduce_one<A, V>(loops.reduced, elements, x, at[1] + i * from_stride);
        const Wide<V> result = sums.finish(reduced, elements);
        elements.store(y, at[0] + i * to_stride, 1, &result, 1);
      }
    });
  });
}

// With noop_with_empty_axes the output is the input, not the reduction of single elements.
template <template <class> class A, TypeSet kSet>
class Reduce final : public Operator {
 public:
  constexpr explicit Reduce(int axes_input_since) : axes_input_since_(axes_input_since) {}

  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return axes_are_input(node) ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, axes_are_input(node) ? 2 : 1));
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    CONVOY_TRY(const std::int64_t keep_dims, node.integer("keepdims", 1));
    return one_output(node, inputs[0].desc.type, reduced_dims(inputs[0].desc.dims, reduced, keep_dims != 0));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    const ReduceLoops loops(outputs[0], inputs[0].desc, reduced);
    if (std::find(reduced.begin(), reduced.end(), true) == reduced.end() && !reduced.empty()) {
      const TensorDesc &x = inputs[0].desc, &y = outputs[0];
      return plan_of_copy(node, StridedCopy(size_of(x.type), y.dims, x.strides, y.strides));
    }
    return dispatch<kSet>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return plan_of(node, loops, elements_of<T>(row_functions(request.cpu.isa), reductions(request.cpu.isa)));
    });
  }

 private:
  bool axes_are_input(const NodeDesc& node) const { return node.opset >= axes_input_since_; }

  template <class V>
  static std::unique_ptr<OpPlan> plan_of(const NodeDesc& node, const ReduceLoops& loops, const Elements<V>& elements) {
    return make_plan(node,
                     [loops, elements](std::span<const void* const> in, std::span<void* const> out,
                                       const ExecContext& context) -> Result<void> {
                       reduce_all<A<V>, V>(loops, elements, in[0], out[0], context);
                       return {};
                     });
  }

  int axes_input_since_;
};

// With fewer dims than x, but more than two, y's channels are another dim than x's: one of them would be turned around.
Taken layouts_of_reduce(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  const auto outputs = find_row(node.domain, node.op)->infer(node, inputs);
  const bool apart = outputs.ok() && (outputs->front().rank() < 3 || outputs->front().rank() == inputs[0].desc.rank());
  return (apart ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

constexpr TypeSet kOrdered = kMathNumeric | only(DataType::boolean);
const Reduce<Sum, kMathNumeric> op_ReduceSum(13);
const Reduce<Mean, kMathNumeric> op_ReduceMean(18);
const Reduce<Max, kOrdered> op_ReduceMax(18);
const Reduce<Min, kOrdered> op_ReduceMin(18);
const Reduce<Prod, kMathNumeric> op_ReduceProd(18);
const Reduce<L1, kMathNumeric> op_ReduceL1(18);
const Reduce<L2, kMathNumeric> op_ReduceL2(18);
const Reduce<LogSum, kMathNumeric> op_ReduceLogSum(18);
const Reduce<LogSumExp, kMathNumeric> op_ReduceLogSumExp(18);
const Reduce<SumSquare, kMathNumeric> op_ReduceSumSquare(18);

}  // namespace

std::vector<OperatorRow> reduce_rows() {
  const auto row = [](std::string_view name, const Operator& op, TypeSet types = kMathNumeric) -> OperatorRow {
    return {name, &op, images::over_axes, Rate::reductions, values::mixed, in_place::never, layouts_of_reduce, types};
  };
  return {row("ReduceSum", op_ReduceSum),
          row("ReduceMean", op_ReduceMean),
          row("ReduceMax", op_ReduceMax, kOrdered),
          row("ReduceMin", op_ReduceMin, kOrdered),
          row("ReduceProd", op_ReduceProd),
          row("ReduceL1", op_ReduceL1),
          row("ReduceL2", op_ReduceL2),
          row("ReduceLogSum", op_ReduceLogSum),
          row("ReduceLogSumExp", op_ReduceLogSumExp),
          row("ReduceSumSquare", op_ReduceSumSquare)};
}

}  // namespace convoy::ops
