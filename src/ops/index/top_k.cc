// TopK: the k largest (or smallest) along an axis with their indices, best first; of equals the first comes first. NaN
// counts as larger than every number.
#include "ops/index/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"
#include "ops/reductions.h"
#include "ops/rows.h"
#include "ops/short_lines.h"

namespace convoy::ops {
namespace {

// Whether a is better than b: of equals neither is, and of NaNs.
template <bool kLargest, class C>
bool is_better(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return (kLargest ? a != a : b != b) && !(a != a && b != b);
  }
  return kLargest ? a > b : a < b;
}

// The k best, k > 0, of a line whose elements are given in their order, each of which finds its place among them.
template <bool kLargest, class C>
class Best {
 public:
  static constexpr std::int64_t kMost = 32, kShort = 32;

  explicit Best(std::int64_t k) : k_(k) {}

  void take(C value, std::int64_t index) {
    if (count_ == k_ && !is_better<kLargest>(value, values_[k_ - 1])) return;
    std::int64_t at = count_ < k_ ? count_++ : k_ - 1;
    for (; at > 0 && is_better<kLargest>(value, values_[at - 1]); --at) {
      values_[at] = values_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }

  // Once there are k, only those that are better than the worst of them are looked at.
  template <class T>
  void take_line(const Reductions* functions, const T* x, std::int64_t step, std::int64_t size) {
    std::int64_t i = 0;
    for (; i < std::min(k_, size); ++i) take(static_cast<C>(x[i * step]), i);
    if constexpr (has_row_functions<T>) {
      if (functions != nullptr && step == 1 && size > kShort) {
        const auto next = [&](std::int64_t from) {
          return functions->next_better(kLargest, float_type<T>, x, from, size, values_[k_ - 1]);
        };
        for (i = next(i); i < size; i = next(i + 1)) take(static_cast<C>(x[i]), i);
        return;
      }
    }
    for (; i < size; ++i) take(static_cast<C>(x[i * step]), i);
  }

  std::int64_t index(std::int64_t i) const { return indices_[i]; }

 private:
  std::int64_t k_, count_ = 0;
  std::array<C, kMost> values_;
  std::array<std::int64_t, kMost> indices_;
};

constexpr std::uint64_t kLow = 0xffffffff;

// A number of at most 32 bits as an unsigned one: the larger the larger, all NaNs the largest, both zeros the same.
template <class C>
std::uint32_t ordered(C value) {
  constexpr std::uint32_t kSign = 0x80000000;
  if constexpr (std::is_same_v<C, float>) {
    if (value != value) return kSign | (kSign - 1);
    const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // -0 becomes 0
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else {
    return static_cast<std::uint32_t>(value) + (std::is_signed_v<C> ? kSign : 0);
  }
}

template <bool kLargest, class T>
void select(const Reductions* functions, const T* x, std::int64_t step, std::int64_t size, std::int64_t k,
            std::vector<std::uint64_t>& order, T* values, std::int64_t* indices, std::int64_t to_step) {
  using C = Compute<T>;
  const auto put = [&](std::int64_t i, std::int64_t from) {
    if (values != nullptr) values[i * to_step] = x[from * step];
    if (indices != nullptr) indices[i * to_step] = from;
  };
  if (k <= Best<kLargest, C>::kMost) {
    Best<kLargest, C> best(k);
    best.take_line(functions, x, step, size);
    for (std::int64_t i = 0; i < k; ++i) put(i, best.index(i));
    return;
  }
  order.resize(size);
  if constexpr (sizeof(T) <= sizeof(std::uint32_t)) {
    // Each with its index as one number, which orders them.
    for (std::int64_t i = 0; i < size; ++i) {
      const std::uint64_t key = ordered(static_cast<C>(x[i * step]));
      order[i] = (kLargest ? ~key & kLow : key) << 32 | static_cast<std::uint64_t>(i);
    }
    if (k < size) std::nth_element(order.begin(), order.begin() + k, order.end());
    std::sort(order.begin(), order.begin() + k);
    for (std::int64_t i = 0; i < k; ++i) put(i, static_cast<std::int64_t>(order[i] & kLow));
    return;
  }
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::uint64_t i, std::uint64_t j) {
    const C a = static_cast<C>(x[static_cast<std::int64_t>(i) * step]);
    const C b = static_cast<C>(x[static_cast<std::int64_t>(j) * step]);
    return is_better<kLargest>(a, b) || (i < j && !is_better<kLargest>(b, a));
  };
  if (k < size) std::nth_element(order.begin(), order.begin() + k, order.end(), before);
  std::sort(order.begin(), order.begin() + k, before);
  for (std::int64_t i = 0; i < k; ++i) put(i, static_cast<std::int64_t>(order[i]));
}

// Lines side by side: a vector of keys, the larger the better, has one of each.
template <class C>
using Key = std::conditional_t<sizeof(C) <= sizeof(std::uint32_t), std::int32_t, std::int64_t>;

template <bool kLargest, class C>
Key<C> key_of(C value) {
  constexpr auto kSign = std::numeric_limits<Key<C>>::min();
  Key<C> key;
  if constexpr (std::is_floating_point_v<C>) {  // whose magnitude is that of its bits; by vectors
    constexpr auto kInfinity = std::bit_cast<Key<C>>(std::numeric_limits<C>::infinity());
    const auto bits = std::bit_cast<Key<C>>(value), magnitude = static_cast<Key<C>>(bits & ~kSign);
    key = bits < 0 ? static_cast<Key<C>>(-magnitude) : magnitude;
    key = magnitude > kInfinity ? static_cast<Key<C>>(~kSign) : key;
  } else {
    key = static_cast<Key<C>>(value);
    if constexpr (std::is_unsigned_v<C> && sizeof(C) == sizeof(Key<C>)) key ^= kSign;
  }
  return kLargest ? key : ~key;
}

class ColumnsTopK {
 public:
  ColumnsTopK(const Reductions& functions, const BroadcastLoop& lines, std::int64_t k, std::int64_t to_step,
              std::int64_t size, std::int64_t step, DataType type)
      : functions_(functions),
        lines_(lines),
        k_(k),
        to_step_(to_step),
        together_(lines_together(lines, size_of(type))) {
    for (std::int64_t i = 0; i < size; ++i) offsets_.push_back(i * step);
  }

  // Where a vector takes in a key as fast as single lines find one, or sort it.
  static bool fits(const BroadcastLoop& lines, std::int64_t k, std::int64_t size, std::int64_t step) {
    constexpr std::int64_t kMostSteps = 1 << 14, kShortRow = 64, kFew = 8;
    if (lines.elements() < kKeyColumns || size > kLongestShort || k * size > kMostSteps) return false;
    return step != 1 || size <= kShortRow || k > kFew;
  }

  template <bool kLargest, class T>
  void run(const T* x, T* values, std::int64_t* indices, const ExecContext& context) const {
    using C = Compute<T>;
    const auto size = static_cast<std::int64_t>(offsets_.size()), inner = lines_.inner_size();  // runs stay whole
    parallel_for(context, lines_.elements() / inner, inner * size * 2, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::array<T, kShortElements> elements;
      alignas(64) std::array<Key<C>, kShortElements> keys, best, at;
      each_short_lines(lines_, begin * inner, end * inner, lines_at_once(size), [&](const LineStarts& starts) {
        const std::int64_t n = starts.count, columns = (n + kKeyColumns - 1) / kKeyColumns * kKeyColumns;
        gather_lines(sizeof(T), x, {starts.of[1].data(), static_cast<std::size_t>(n)}, together_, offsets_,
                     elements.data());
        for (std::int64_t e = 0; e < size; ++e) {
          for (std::int64_t i = 0; i < n; ++i) {
            keys[e * columns + i] = key_of<kLargest>(static_cast<C>(elements[e * n + i]));
          }
          std::fill_n(keys.data() + e * columns + n, columns - n, 0);
        }
        best_of(keys.data(), size, columns, best.data(), at.data());
        const bool neighbours = starts.are_neighbours(0);
        for (std::int64_t j = 0; j < k_; ++j) {
          const Key<C>* const places = at.data() + j * columns;
          const auto put = [&](auto* y, auto value_of) {
            if (y == nullptr) return;
            y += j * to_step_;
            if (neighbours) {
              y += starts.of[0][0];
              for (std::int64_t i = 0; i < n; ++i) y[i] = value_of(i);
            } else {
              for (std::int64_t i = 0; i < n; ++i) y[starts.of[0][i]] = value_of(i);
            }
          };
          put(values, [&](std::int64_t i) { return elements[places[i] * n + i]; });
          put(indices, [&](std::int64_t i) { return static_cast<std::int64_t>(places[i]); });
        }
      });
    });
  }

 private:
  void best_of(const std::int32_t* keys, std::int64_t size, std::int64_t columns, std::int32_t* best,
               std::int32_t* at) const {
    functions_.best_of_keys(keys, size, columns, k_, best, at);
  }
  void best_of(const std::int64_t* keys, std::int64_t size, std::int64_t columns, std::int64_t* best,
               std::int64_t* at) const {
    functions_.best_of_wide_keys(keys, size, columns, k_, best, at);
  }

  const Reductions& functions_;
  BroadcastLoop lines_;
  std::int64_t k_, to_step_, together_;
  std::vector<std::int64_t> offsets_;  // of a line's elements
};

class TopK final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 10 ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const int count = node.opset >= 10 ? 2 : 1;
    CONVOY_CHECK(check_counts(node, inputs, count, count, 2));
    CONVOY_TRY(const TopKRequest p, top_k_request(node, inputs));
    Dims dims = inputs[0].desc.dims;
    dims[p.axis] = p.k;
    std::vector<TensorDesc> outputs;
    for (const DataType type : {inputs[0].desc.type, DataType::s64}) {
      CONVOY_TRY(TensorDesc desc, make_output(node, type, dims));
      outputs.push_back(std::move(desc));
    }
    outputs.resize(std::clamp(node.output_count, 1, 2));
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const TopKRequest p, top_k_request(node, inputs));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    std::vector<bool> axis(x.rank(), false);
    axis[p.axis] = true;
    const BroadcastLoop lines({cut(y, axis, true), cut(x, axis, true)});
    const std::int64_t size = x.dims[p.axis], step = x.strides[p.axis], to_step = y.strides[p.axis];
    const std::int64_t count = p.k == 0 ? 0 : lines.elements();
    const Reductions* const functions = reductions(request.cpu.isa);
    if (functions != nullptr && count > 0 && ColumnsTopK::fits(lines, p.k, size, step)) {
      const ColumnsTopK columns(*functions, lines, p.k, to_step, size, step, x.type);
      return dispatch<kMathNumeric>(x.type, [&]<class T>(Tag<T>) {
        return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
          auto* const values = static_cast<T*>(out[0]);
          auto* const indices = out.size() < 2 ? nullptr : static_cast<std::int64_t*>(out[1]);
          const auto* const from = static_cast<const T*>(in[0]);
          p.largest ? columns.run<true>(from, values, indices, context)
                    : columns.run<false>(from, values, indices, context);
          return {};
        });
      });
    }
    return dispatch<kMathNumeric>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            parallel_for(context, count, size * 8, [&](std::int64_t begin, std::int64_t end) {
              std::vector<std::uint64_t> order;
              lines.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
                for (std::int64_t i = 0; i < run; ++i) {
                  const std::int64_t to = at[0] + i * lines.inner_stride(0);
                  const auto run_select = p.largest ? select<true, T> : select<false, T>;
                  run_select(functions, static_cast<const T*>(in[0]) + at[1] + i * lines.inner_stride(1), step, size,
                             p.k, order, out[0] == nullptr ? nullptr : static_cast<T*>(out[0]) + to,
                             out.size() < 2 || out[1] == nullptr ? nullptr : static_cast<std::int64_t*>(out[1]) + to,
                             to_step);
                }
              });
            });
            return {};
          });
    });
  }
};

const TopK op_TopK;

}  // namespace

Result<TopKRequest> top_k_request(const NodeDesc& node, std::span<const Input> inputs) {
  TopKRequest p;
  const TensorDesc& x = inputs[0].desc;
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", -1));
  CONVOY_TRY(p.axis, normalize_axis(node, axis, x.rank(), "axis"));
  CONVOY_TRY(const std::int64_t largest, node.integer("largest", 1));
  p.largest = largest != 0;
  if (node.opset < 10) {
    CONVOY_TRY(p.k, node.integer("k", -1));
  } else {
    CONVOY_TRY(const std::vector<std::int64_t> k, constant_integers(node, inputs, 1));
    if (k.size() != 1) return bad_node(node, "input 1 (k) must be a single value");
    p.k = k[0];
  }
  if (p.k < 0 || p.k > x.dims[p.axis]) {
    return bad_node(node, fmt::format("k={} is outside [0, {}], the size of axis {}", p.k, x.dims[p.axis], p.axis));
  }
  return p;
}

std::vector<OperatorRow> top_k_rows() {
  return {{"TopK", &op_TopK, images::along_last, Rate::others, values::mixed, in_place::never, layouts::plain,
           kMathNumeric}};
}

}  // namespace convoy::ops
