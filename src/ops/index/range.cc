// Range: start, start + delta, ... up to but without limit.
#include <fmt/format.h>

#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

template <class T>
Result<std::int64_t> count_of(const NodeDesc& node, T start, T limit, T delta) {
  using C = std::conditional_t<is_float_element<T>, double, T>;
  const C first = static_cast<C>(start), last = static_cast<C>(limit), step = static_cast<C>(delta);
  if (step == 0 || step != step) return bad_node(node, "input 2 (delta) is 0");
  if (step > 0 ? first >= last : first <= last) return std::int64_t{0};
  double count;
  if constexpr (std::is_floating_point_v<C>) {
    count = std::ceil((last - first) / step);
  } else {
    // Unsigned: the distance of two 64-bit integers does not fit a signed one.
    const auto distance =
        step > 0 ? std::uint64_t(last) - std::uint64_t(first) : std::uint64_t(first) - std::uint64_t(last);
    const auto width = step > 0 ? std::uint64_t(step) : -std::uint64_t(step);
    const std::uint64_t whole = distance / width + (distance % width != 0 ? 1 : 0);
    if (whole < (std::uint64_t{1} << 62)) return static_cast<std::int64_t>(whole);
    count = static_cast<double>(whole);
  }
  if (!(count < 4e18)) return bad_node(node, fmt::format("gives {} elements", count));
  return static_cast<std::int64_t>(count);
}

class Range final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0, 1, 2}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs));
    for (int i = 0; i < 3; ++i) {
      if (inputs[i].desc.elements() != 1) return bad_node(node, fmt::format("input {} must be a scalar", i));
      if (inputs[i].constant == nullptr) {
        return Error{ErrorCode::unsupported,
                     fmt::format("Range: input {} must be known before the node is planned", i)};
      }
    }
    const DataType type = inputs[0].desc.type;
    return dispatch<kMathNumeric>(type, [&]<class T>(Tag<T>) -> Result<std::vector<TensorDesc>> {
      const auto value = [&](int i) { return *static_cast<const T*>(inputs[i].constant); };
      CONVOY_TRY(const std::int64_t count, count_of<T>(node, value(0), value(1), value(2)));
      return one_output(node, type, {count});
    });
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    return dispatch<kMathNumeric>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [count = outputs[0].elements()](std::span<const void* const> in, std::span<void* const> out,
                                                       const ExecContext& context) -> Result<void> {
                         using C = std::conditional_t<is_float_element<T>, double, std::uint64_t>;
                         const C start = static_cast<C>(*static_cast<const T*>(in[0])),
                                 delta = static_cast<C>(*static_cast<const T*>(in[2]));
                         T* y = static_cast<T*>(out[0]);
                         parallel_for(context, count, 1, [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i)
                             y[i] = static_cast<T>(start + static_cast<C>(i) * delta);
                         });
                         return {};
                       });
    });
  }
};

const Range op_Range;

}  // namespace

std::vector<OperatorRow> range_rows() {
  return {{"Range", &op_Range, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathNumeric}};
}

}  // namespace convoy::ops
