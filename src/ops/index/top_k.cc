// TopK: the k largest (or smallest) along an axis with their indices, best first; of equals the first comes first. NaN
// counts as larger than every number.
#include "ops/index/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"
#include "ops/reductions.h"
#include "ops/rows.h"

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
