// Pow: a base of one type to an exponent of any other; the result has the base's type.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

// Integers to a whole, non-negative power, wrapping; any other power goes through double and is truncated.
template <class T>
T integer_power(T base, double exponent) {
  if (exponent >= 0 && exponent == std::floor(exponent) && exponent < 9e15) {
    auto factor = static_cast<std::uint64_t>(base);
    std::uint64_t result = 1;
    for (auto rest = static_cast<std::uint64_t>(exponent); rest > 0; rest >>= 1, factor *= factor) {
      if (rest & 1) result *= factor;
    }
    return static_cast<T>(result);
  }
  const double value = std::pow(static_cast<double>(base), exponent);
  return std::abs(value) < 9.2e18 ? static_cast<T>(static_cast<std::int64_t>(value)) : T(0);
}

template <class T>
T power(T base, double exponent) {
  if constexpr (is_float_element<T>) {
    if (exponent == 2) return T(static_cast<Compute<T>>(base) * static_cast<Compute<T>>(base));
    if (exponent == 1) return base;
    return T(std::pow(static_cast<Compute<T>>(base), static_cast<Compute<T>>(exponent)));
  } else {
    return integer_power(base, exponent);
  }
}

// Powers that are told without logarithms; the result of others is the C library's.
std::optional<Value> simple_power(const Value& x, double exponent) {
  using namespace elements;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Of -infinity it is infinity, of -0 it is 0.
  const auto root = [&] { return select(equal(x, -kInfinity), kInfinity, sqrt(x + 0.0)); };
  if (exponent == 0.5) return root();
  if (exponent == -0.5) return 1.0 / root();
  if (exponent == 1.5) return absolute(x) * root();
  if (exponent == -1) return 1.0 / x;
  if (exponent == -2) return 1.0 / (x * x);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == 4) return (x * x) * (x * x);
  return std::nullopt;
}

class Pow final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kMathNumeric));
    CONVOY_TRY(Dims dims, broadcast_inputs(node, inputs));
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const TensorDesc exponents, broadcast_operand(node, inputs, 1));
    const DataType type = outputs[0].type;
    if (contains(kMathFloats, type)) {
      Description d(node, type, 1);
      const bool known = inputs[1].constant != nullptr && exponents.elements() == 1;
      const double exponent = known ? load_as_double(exponents.type, inputs[1].constant, 0) : 0;
      if (const auto value = simple_power(d.input(), exponent); known && value) {
        return element_plan(node, std::move(d).function(*value), false, {inputs[0].desc}, outputs[0], request);
      }
      if (exponents.type == type) {
        Description two(node, type, 2);
        const ElementFunction power = std::move(two).function(elements::pow(two.input(0), two.input(1)));
        return element_plan(node, power, false, {inputs[0].desc, exponents}, outputs[0], request);
      }
    }
    const BroadcastLoop loop({outputs[0], inputs[0].desc, exponents});
    return dispatch<kMathNumeric>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [loop, type = exponents.type](std::span<const void* const> in, std::span<void* const> out,
                                                     const ExecContext& context) -> Result<void> {
                         parallel_for(context, loop.elements(), 16, [&](std::int64_t begin, std::int64_t end) {
                           loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                             const T* x = static_cast<const T*>(in[0]) + at[1];
                             T* y = static_cast<T*>(out[0]) + at[0];
                             for (std::int64_t i = 0; i < count; ++i) {
                               const double exponent = load_as_double(type, in[1], at[2] + i * loop.inner_stride(2));
                               y[i * loop.inner_stride(0)] = power(x[i * loop.inner_stride(1)], exponent);
                             }
                           });
                         });
                         return {};
                       });
    });
  }
};

const Pow op_Pow;

}  // namespace

std::vector<OperatorRow> power_rows() {
  return {{"Pow", &op_Pow, images::element_wise, Rate::functions, values::mapped_two, in_place::first, layouts::plain,
           kMathNumeric}};
}

}  // namespace convoy::ops
