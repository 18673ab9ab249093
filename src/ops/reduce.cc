// ReduceSum and its kin. Floats are accumulated in double, integers in 64 bits that wrap.
#include "ops/reduce.h"

#include <array>
#include <cmath>
#include <limits>

#include "ops/families.h"
#include "ops/unary.h"

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

// What sums of T's are held in.
template <class T>
using Wide = std::conditional_t<is_float_element<T>, double, std::uint64_t>;
template <class T>
constexpr bool kIsInteger = !is_float_element<T>;

// An accumulator takes the elements one by one, merges with another, and gives the result for `count` elements.
template <class T>
struct SumOf {
  Wide<T> sum = 0;
  void add(Compute<T> x) { sum += static_cast<Wide<T>>(x); }
  void merge(const SumOf& other) { sum += other.sum; }
};

template <class T>
struct Sum : SumOf<T> {
  T finish(std::int64_t) const { return static_cast<T>(this->sum); }
};

template <class T>
struct Mean : SumOf<T> {
  T finish(std::int64_t count) const {
    if constexpr (kIsInteger<T>) {
      using Signed = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      return count == 0 ? T(0) : static_cast<T>(static_cast<Signed>(this->sum) / static_cast<Signed>(count));
    } else {
      return static_cast<T>(this->sum / static_cast<double>(count));
    }
  }
};

template <class T>
struct LogSum : SumOf<T> {
  T finish(std::int64_t) const {
    using Signed = std::conditional_t<std::is_signed_v<T>, std::int64_t, Wide<T>>;
    using Value = std::conditional_t<kIsInteger<T>, Signed, double>;
    return static_cast<T>(std::log(static_cast<double>(static_cast<Value>(this->sum))));
  }
};

template <class T>
struct L1 : SumOf<T> {
  void add(Compute<T> x) {
    if constexpr (kIsInteger<T>) {
      this->sum += x < 0 ? -static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    } else {
      this->sum += std::abs(static_cast<double>(x));
    }
  }
  T finish(std::int64_t) const { return static_cast<T>(this->sum); }
};

template <class T>
struct SumSquare : SumOf<T> {
  void add(Compute<T> x) { this->sum += static_cast<Wide<T>>(x) * static_cast<Wide<T>>(x); }
  T finish(std::int64_t) const { return static_cast<T>(this->sum); }
};

template <class T>
struct L2 {
  double sum = 0;
  void add(Compute<T> x) { sum += static_cast<double>(x) * static_cast<double>(x); }
  void merge(const L2& other) { sum += other.sum; }
  T finish(std::int64_t) const { return static_cast<T>(std::sqrt(sum)); }
};

template <class T>
struct Prod {
  Wide<T> product = 1;
  void add(Compute<T> x) { product *= static_cast<Wide<T>>(x); }
  void merge(const Prod& other) { product *= other.product; }
  T finish(std::int64_t) const { return static_cast<T>(product); }
};

// log(sum(exp(x))), relative to the largest x so far, so that nothing overflows.
template <class T>
struct LogSumExp {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  void add(Compute<T> value) {
    const double x = static_cast<double>(value);
    if (x <= largest) {
      sum += x == largest ? 1 : std::exp(x - largest);
    } else {
      sum = sum * std::exp(largest - x) + 1;
      largest = x;
    }
  }
  void merge(const LogSumExp& other) {
    if (other.sum == 0) return;
    if (other.largest <= largest) {
      sum += other.sum * (other.largest == largest ? 1 : std::exp(other.largest - largest));
    } else {
      sum = other.sum + (sum == 0 ? 0 : sum * std::exp(largest - other.largest));
      largest = other.largest;
    }
  }
  T finish(std::int64_t) const { return static_cast<T>(largest + std::log(sum)); }
};

// The largest, or with kSign = -1 the smallest; NaN wins.
template <class T, int kSign>
struct Extreme {
  using C = Compute<T>;
  static constexpr C start() {
    if constexpr (std::is_floating_point_v<C>) return -kSign * std::numeric_limits<C>::infinity();
    return kSign > 0 ? std::numeric_limits<C>::lowest() : std::numeric_limits<C>::max();
  }
  C best = start();
  void add(C x) { best = (kSign > 0 ? x > best : x < best) || x != x ? x : best; }
  void merge(const Extreme& other) { add(other.best); }
  T finish(std::int64_t) const { return static_cast<T>(best); }
};
template <class T>
using Max = Extreme<T, 1>;
template <class T>
using Min = Extreme<T, -1>;

// One output element: runs along the reduced dims, in several lanes so that additions need not wait for each other.
template <class A, class T>
A reduce_one(const BroadcastLoop& reduced, const T* x) {
  constexpr int kLanes = 8;
  std::array<A, kLanes> lanes;
  const std::int64_t stride = reduced.inner_stride(0);
  const auto run = [&](const T* from, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane].add(from[(i + lane) * stride]);
    }
    for (; i < count; ++i) lanes[0].add(from[i * stride]);
  };
  if (reduced.inner_size() == reduced.elements()) {
    run(x, reduced.elements());
  } else {
    reduced.run(0, reduced.elements(), [&](const std::int64_t* at, std::int64_t count) { run(x + at[0], count); });
  }
  for (int lane = 1; lane < kLanes; ++lane) lanes[0].merge(lanes[lane]);
  return lanes[0];
}

// A few neighbouring output elements at once, where the input is contiguous along them.
template <class A, class T>
void reduce_neighbours(const BroadcastLoop& reduced, const T* x, T* y, std::int64_t y_stride, std::int64_t count) {
  constexpr std::int64_t kChunk = 128;
  for (std::int64_t start = 0; start < count; start += kChunk) {
    const std::int64_t n = std::min(kChunk, count - start);
    std::array<A, kChunk> sums{};
    reduced.run(0, reduced.elements(), [&](const std::int64_t* at, std::int64_t run) {
      for (std::int64_t r = 0; r < run; ++r) {
        const T* from = x + start + at[0] + r * reduced.inner_stride(0);
        for (std::int64_t i = 0; i < n; ++i) sums[i].add(from[i]);
      }
    });
    for (std::int64_t i = 0; i < n; ++i) y[(start + i) * y_stride] = sums[i].finish(reduced.elements());
  }
}

template <template <class> class A, TypeSet kSet>
class Reduce final : public Operator {
 public:
  explicit Reduce(int axes_input_since) : axes_input_since_(axes_input_since) {}

  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return axes_are_input(node) ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, axes_are_input(node) ? 2 : 1));
    CONVOY_CHECK(check_type(node, inputs, 0, kSet));
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    CONVOY_TRY(const std::int64_t keep_dims, node.integer("keepdims", 1));
    return one_output(node, inputs[0].desc.type, reduced_dims(inputs[0].desc.dims, reduced, keep_dims != 0));
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    const ReduceLoops loops(outputs[0], inputs[0].desc, reduced);
    // With noop_with_empty_axes the output is the input, not the reduction of single elements.
    const bool copies = std::find(reduced.begin(), reduced.end(), true) == reduced.end() && !reduced.empty();
    return dispatch<kSet>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [loops, copies](std::span<const void* const> in, std::span<void* const> out,
                                       const ExecContext& context) -> Result<void> {
                         execute<T>(loops, copies, static_cast<const T*>(in[0]), static_cast<T*>(out[0]), context);
                         return {};
                       });
    });
  }

 private:
  bool axes_are_input(const NodeDesc& node) const { return node.opset >= axes_input_since_; }

  template <class T>
  static void execute(const ReduceLoops& loops, bool copies, const T* x, T* y, const ExecContext& context) {
    const std::int64_t reduced = loops.reduced.elements();
    const bool neighbours = loops.kept.inner_stride(1) == 1 && loops.reduced.inner_stride(0) != 1 && reduced > 1;
    parallel_for(context, loops.kept.elements(), reduced, [&](std::int64_t begin, std::int64_t end) {
      loops.kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
        T* to = y + at[0];
        const T* from = x + at[1];
        const std::int64_t to_stride = loops.kept.inner_stride(0), from_stride = loops.kept.inner_stride(1);
        if (copies) {
          for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
        } else if (neighbours) {
          reduce_neighbours<A<T>>(loops.reduced, from, to, to_stride, count);
        } else {
          for (std::int64_t i = 0; i < count; ++i) {
            to[i * to_stride] = reduce_one<A<T>>(loops.reduced, from + i * from_stride).finish(reduced);
          }
        }
      });
    });
  }

  int axes_input_since_;
};

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
  return {
      {"ReduceSum", &op_ReduceSum},
      {"ReduceMean", &op_ReduceMean},
      {"ReduceMax", &op_ReduceMax},
      {"ReduceMin", &op_ReduceMin},
      {"ReduceProd", &op_ReduceProd},
      {"ReduceL1", &op_ReduceL1},
      {"ReduceL2", &op_ReduceL2},
      {"ReduceLogSum", &op_ReduceLogSum},
      {"ReduceLogSumExp", &op_ReduceLogSumExp},
      {"ReduceSumSquare", &op_ReduceSumSquare},
  };
}

}  // namespace convoy::ops
