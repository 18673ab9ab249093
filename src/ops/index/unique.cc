// Unique: the distinct elements, or with an axis the distinct slices along it, sorted or in order of first occurrence;
// with the index of the first occurrence, the inverse mapping and the counts.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "ops/computed.h"
#include "ops/math_types.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// The tensor as [outer][slices][inner]; without an axis every element is a slice.
struct Slices {
  std::int64_t outer = 1, count = 1, inner = 1;
  bool flat = true;
  int axis = 0;
  bool sorted = true;
};

struct Distinct {
  std::vector<std::int64_t> first, inverse, counts;
};

// Three-way comparison of `count` elements at a and b; NaN comes last and equals itself, so that the order is total.
using Compare = int (*)(const void* a, const void* b, std::int64_t count);
Compare comparison(DataType type) {
  return dispatch<kAnyType>(type, [&]<class T>(Tag<T>) -> Compare {
    return [](const void* a, const void* b, std::int64_t count) {
      using C = Compute<T>;
      for (std::int64_t k = 0; k < count; ++k) {
        const C left = static_cast<C>(static_cast<const T*>(a)[k]), right = static_cast<C>(static_cast<const T*>(b)[k]);
        const bool left_nan = left != left, right_nan = right != right;
        if (left_nan != right_nan) return left_nan ? 1 : -1;
        if (left_nan || left == right) continue;
        return left < right ? -1 : 1;
      }
      return 0;
    };
  });
}

Distinct find_distinct(const Slices& s, const TensorDesc& desc, const void* x) {
  const std::size_t size = size_of(desc.type);
  const Compare of_type = comparison(desc.type);
  const auto compare = [&](std::int64_t i, std::int64_t j) {
    int way = 0;
    for (std::int64_t o = 0; o < s.outer && way == 0; ++o) {
      way = of_type(at_element(x, (o * s.count + i) * s.inner, size), at_element(x, (o * s.count + j) * s.inner, size),
                    s.inner);
    }
    return way;
  };
  std::vector<std::int64_t> order(s.count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const int way = compare(i, j);
    return way == 0 ? i < j : way < 0;
  });
  // Groups in sorted order, then renumbered by first occurrence where they are not to be sorted.
  std::vector<std::int64_t> group_of(s.count), first;
  for (std::int64_t at = 0; at < s.count; ++at) {
    if (at == 0 || compare(order[at - 1], order[at]) != 0) first.push_back(order[at]);
    group_of[order[at]] = static_cast<std::int64_t>(first.size()) - 1;
  }
  std::vector<std::int64_t> ranks(first.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (!s.sorted) {
    std::sort(ranks.begin(), ranks.end(), [&](std::int64_t a, std::int64_t b) { return first[a] < first[b]; });
  }
  Distinct result;
  std::vector<std::int64_t> place(first.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    place[ranks[r]] = static_cast<std::int64_t>(r);
    result.first.push_back(first[ranks[r]]);
  }
  result.counts.assign(first.size(), 0);
  for (std::int64_t i = 0; i < s.count; ++i) {
    result.inverse.push_back(place[group_of[i]]);
    ++result.counts[place[group_of[i]]];
  }
  return result;
}

Result<Slices> slices_of(const NodeDesc& node, const TensorDesc& x) {
  Slices s;
  CONVOY_TRY(const std::int64_t sorted, node.integer("sorted", 1));
  s.sorted = sorted != 0;
  s.flat = !node.has("axis");
  if (s.flat) {
    s.count = x.elements();
    return s;
  }
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
  CONVOY_TRY(s.axis, normalize_axis(node, axis, x.rank(), "axis"));
  s.count = x.dims[s.axis];
  for (int d = 0; d < x.rank(); ++d) (d < s.axis ? s.outer : s.inner) *= d == s.axis ? 1 : x.dims[d];
  return s;
}

class Unique final : public ComputedOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0}; }

  Result<std::vector<HostTensor>> compute(const NodeDesc& node, std::span<const Input> inputs,
                                          const Allocate& allocate) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1, 4));
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const Slices s, slices_of(node, x));
    const Distinct distinct = find_distinct(s, x, inputs[0].constant);
    const auto count = static_cast<std::int64_t>(distinct.first.size());
    Dims dims = s.flat ? Dims{count} : x.dims;
    if (!s.flat) dims[s.axis] = count;
    CONVOY_TRY(TensorDesc desc, make_output(node, x.type, std::move(dims)));
    std::vector<HostTensor> outputs(1);
    CONVOY_TRY(outputs[0], allocate(std::move(desc)));
    const std::int64_t bytes = s.inner * static_cast<std::int64_t>(size_of(x.type));
    const auto* const from = static_cast<const std::byte*>(inputs[0].constant);
    auto* to = outputs[0].as<std::byte>();
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (const std::int64_t slice : distinct.first) to = std::copy_n(from + (o * s.count + slice) * bytes, bytes, to);
    }
    for (const auto* each : {&distinct.first, &distinct.inverse, &distinct.counts}) {
      if (static_cast<int>(outputs.size()) >= node.output_count) break;
      const auto size = static_cast<std::int64_t>(each->size());
      CONVOY_TRY(HostTensor output, allocate(TensorDesc::packed(DataType::s64, {size})));
      std::ranges::copy(*each, output.as<std::int64_t>());
      outputs.push_back(std::move(output));
    }
    return outputs;
  }
};

const Unique op_Unique;

}  // namespace

std::vector<OperatorRow> unique_rows() {
  return {{"Unique", &op_Unique, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kAnyType}};
}

}  // namespace convoy::ops
