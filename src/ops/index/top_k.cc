// TopK: the k largest (or smallest) along an axis with their indices, best first; of equals the first comes first. NaN
// counts as larger than every number.
#include "ops/index/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"
#include "ops/reductions.h"
#include "ops/short_lines.h"

namespace convoy::ops {
namespace {

// Elements are compared by keys, the larger the better: of equals and of NaNs, which are larger than all numbers, the
// same.
template <std::size_t kBytes>
using Key = std::conditional_t<kBytes <= sizeof(std::int32_t), std::int32_t, std::int64_t>;

template <class C>
Key<sizeof(C)> key_of(C value) {
  using K = Key<sizeof(C)>;
  constexpr auto kSign = std::numeric_limits<K>::min();
  if constexpr (std::is_floating_point_v<C>) {  // whose magnitude is that of its bits; by vectors
    constexpr auto kInfinity = std::bit_cast<K>(std::numeric_limits<C>::infinity());
    const auto bits = std::bit_cast<K>(value), magnitude = static_cast<K>(bits & ~kSign);
    const K key = bits < 0 ? static_cast<K>(-magnitude) : magnitude;
    return magnitude > kInfinity ? static_cast<K>(~kSign) : key;
  } else {
    const K key = static_cast<K>(value);
    return std::is_unsigned_v<C> && sizeof(C) == sizeof(K) ? key ^ kSign : key;
  }
}

// Those of `count` elements of x, `step` apart.
using MakeKeys = void (*)(const void* x, std::int64_t step, std::int64_t count, bool largest, void* keys);
MakeKeys keys_of(DataType type) {
  return dispatch<kMathNumeric>(type, [&]<class T>(Tag<T>) -> MakeKeys {
    return [](const void* x, std::int64_t step, std::int64_t count, bool largest, void* keys) {
      using K = Key<sizeof(T)>;
      const T* const from = static_cast<const T*>(x);
      K* const to = static_cast<K*>(keys);
      const K turn = largest ? 0 : -1;
      const auto key = [&](const T& value) { return static_cast<K>(key_of(static_cast<Compute<T>>(value)) ^ turn); };
      if (step == 1) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = key(from[i]);
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = key(from[i * step]);
      }
    };
  });
}

// What is looked for in each line, whose elements are `step` apart; of the results they are to_step apart.
struct Lines {
  const Reductions* functions;  // null: none
  DataType type;
  MakeKeys keys;
  bool largest;
  std::int64_t k, size, step, to_step;
};

// The k best of a line, k > 0, whose keys are given in their order, each of which finds its place among them.
template <class K>
class Best {
 public:
  static constexpr std::int64_t kMost = 32;

  explicit Best(std::int64_t k) : k_(k) {}

  void take(K key, std::int64_t index) {
    if (count_ == k_ && key <= keys_[k_ - 1]) return;
    std::int64_t at = count_ < k_ ? count_++ : k_ - 1;
    for (; at > 0 && key > keys_[at - 1]; --at) {
      keys_[at] = keys_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    keys_[at] = key;
    indices_[at] = index;
  }
  std::int64_t index(std::int64_t i) const { return indices_[i]; }

 private:
  std::int64_t k_, count_ = 0;
  std::array<K, kMost> keys_;
  std::array<std::int64_t, kMost> indices_;
};

// `order` becomes the indices of the best, which are few.
template <class K>
void find_few(const Lines& s, const std::byte* x, std::int64_t element_size, std::vector<std::uint64_t>& order) {
  constexpr std::int64_t kShort = 32, kChunk = 256;
  Best<K> best(s.k);
  K keys[kChunk];
  const auto take = [&](std::int64_t first, std::int64_t count) {
    s.keys(x + first * s.step * element_size, s.step, count, s.largest, keys);
    for (std::int64_t i = 0; i < count; ++i) best.take(keys[i], first + i);
  };
  std::int64_t i = 0;
  if (s.functions != nullptr && s.step == 1 && s.size > kShort && contains(only(DataType::f32) | kHalves, s.type)) {
    // Once there are k, only those that are better than the worst of them are looked at.
    take(0, s.k);
    const auto next = [&](std::int64_t from) {
      const auto worst = static_cast<float>(load_as_double(s.type, x, best.index(s.k - 1)));
      return s.functions->next_better(s.largest, s.type, x, from, s.size, worst);
    };
    for (i = next(s.k); i < s.size; i = next(i + 1)) take(i, 1);
  }
  for (; i < s.size; i += kChunk) take(i, std::min(kChunk, s.size - i));
  order.resize(static_cast<std::size_t>(s.k));
  for (std::int64_t b = 0; b < s.k; ++b) order[static_cast<std::size_t>(b)] = static_cast<std::uint64_t>(best.index(b));
}

// The same of any number of them.
template <class K>
void find_many(const Lines& s, const std::byte* x, std::vector<std::uint64_t>& order) {
  std::vector<K> keys(static_cast<std::size_t>(s.size));
  s.keys(x, s.step, s.size, s.largest, keys.data());
  order.resize(static_cast<std::size_t>(s.size));
  const auto sort = [&](auto before) {
    if (s.k < s.size) std::nth_element(order.begin(), order.begin() + s.k, order.end(), before);
    std::sort(order.begin(), order.begin() + s.k, before);
  };
  if constexpr (sizeof(K) == sizeof(std::uint32_t)) {  // each with its index as one number, which orders them
    constexpr std::uint32_t kAllButSign = 0x7fffffff;
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = std::uint64_t{static_cast<std::uint32_t>(keys[i]) ^ kAllButSign} << 32 | i;
    }
    sort(std::less<>());
    for (std::int64_t i = 0; i < s.k; ++i) order[static_cast<std::size_t>(i)] &= 0xffffffff;
  } else {
    std::iota(order.begin(), order.end(), 0);
    sort([&](std::uint64_t i, std::uint64_t j) { return keys[i] > keys[j] || (keys[i] == keys[j] && i < j); });
  }
}

// Lines one by one. Bits: elements by their size.
template <class Bits>
void select(const Lines& s, const Bits* x, std::vector<std::uint64_t>& order, Bits* values, std::int64_t* indices) {
  using K = Key<sizeof(Bits)>;
  const auto* const bytes = reinterpret_cast<const std::byte*>(x);
  s.k <= Best<K>::kMost ? find_few<K>(s, bytes, sizeof(Bits), order) : find_many<K>(s, bytes, order);
  for (std::int64_t i = 0; i < s.k; ++i) {
    const auto index = static_cast<std::int64_t>(order[static_cast<std::size_t>(i)]);
    if (values != nullptr) values[i * s.to_step] = x[index * s.step];
    if (indices != nullptr) indices[i * s.to_step] = index;
  }
}

// Lines side by side: a vector of keys has one of each.
class ColumnsTopK {
 public:
  ColumnsTopK(const Lines& s, const BroadcastLoop& lines)
      : s_(s), lines_(lines), together_(lines_together(lines, size_of(s.type))) {
    for (std::int64_t i = 0; i < s.size; ++i) offsets_.push_back(i * s.step);
  }

  // Where a vector takes in a key as fast as single lines find one, or sort it.
  static bool fits(const Lines& s, const BroadcastLoop& lines) {
    constexpr std::int64_t kMostSteps = 1 << 14, kShortRow = 64, kFew = 8;
    if (s.functions == nullptr || lines.elements() < kKeyColumns) return false;
    if (s.size > kLongestShort || s.k * s.size > kMostSteps) return false;
    return s.step != 1 || s.size <= kShortRow || s.k > kFew;
  }

  template <class Bits>
  void run(const Bits* x, Bits* values, std::int64_t* indices, const ExecContext& context) const {
    using K = Key<sizeof(Bits)>;
    const std::int64_t size = s_.size, inner = lines_.inner_size();  // runs stay whole
    parallel_for(context, lines_.elements() / inner, inner * size * 2, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::array<Bits, kShortElements> elements;
      alignas(64) std::array<K, kShortElements> keys, best, at;
      each_short_lines(lines_, begin * inner, end * inner, lines_at_once(size), [&](const LineStarts& starts) {
        const std::int64_t n = starts.count, columns = (n + kKeyColumns - 1) / kKeyColumns * kKeyColumns;
        gather_lines(sizeof(Bits), x, {starts.of[1].data(), static_cast<std::size_t>(n)}, together_, offsets_,
                     elements.data());
        for (std::int64_t e = 0; e < size; ++e) {
          s_.keys(elements.data() + e * n, 1, n, s_.largest, keys.data() + e * columns);
          std::fill_n(keys.data() + e * columns + n, columns - n, 0);
        }
        if constexpr (std::is_same_v<K, std::int32_t>) {
          s_.functions->best_of_keys(keys.data(), size, columns, s_.k, best.data(), at.data());
        } else {
          s_.functions->best_of_wide_keys(keys.data(), size, columns, s_.k, best.data(), at.data());
        }
        const bool neighbours = starts.are_neighbours(0);
        for (std::int64_t j = 0; j < s_.k; ++j) {
          const K* const places = at.data() + j * columns;
          const auto put = [&](auto* y, auto value_of) {
            if (y == nullptr) return;
            y += j * s_.to_step;
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
  const Lines s_;
  BroadcastLoop lines_;
  std::int64_t together_;
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
    const Lines s{reductions(request.cpu.isa), x.type,           keys_of(x.type), p.largest, p.k, x.dims[p.axis],
                  x.strides[p.axis],           y.strides[p.axis]};
    const std::int64_t count = p.k == 0 ? 0 : lines.elements();
    return dispatch_bytes(size_of(x.type), [&]<class Bits>(Tag<Bits>) {
      const auto values_of = [](std::span<void* const> out) { return static_cast<Bits*>(out[0]); };
      const auto indices_of = [](std::span<void* const> out) {
        return out.size() < 2 ? nullptr : static_cast<std::int64_t*>(out[1]);
      };
      if (count > 0 && ColumnsTopK::fits(s, lines)) {
        return make_plan(
            node, [=, columns = ColumnsTopK(s, lines)](auto in, auto out, const ExecContext& context) -> Result<void> {
              columns.run(static_cast<const Bits*>(in[0]), values_of(out), indices_of(out), context);
              return {};
            });
      }
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        Bits* const values = values_of(out);
        std::int64_t* const indices = indices_of(out);
        parallel_for(context, count, s.size * 8, [&](std::int64_t begin, std::int64_t end) {
          std::vector<std::uint64_t> order;
          lines.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
            for (std::int64_t i = 0; i < run; ++i) {
              const std::int64_t to = at[0] + i * lines.inner_stride(0);
              select(s, static_cast<const Bits*>(in[0]) + at[1] + i * lines.inner_stride(1), order,
                     values == nullptr ? nullptr : values + to, indices == nullptr ? nullptr : indices + to);
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
