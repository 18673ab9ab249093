#include "engines/reference/reduce.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace convoy::reference {
namespace {

template <DataType type>
double load(const void* data, std::int64_t i) {
  if constexpr (type == DataType::f64) return static_cast<const double*>(data)[i];
  if constexpr (type == DataType::f32) return static_cast<const float*>(data)[i];
  if constexpr (type == DataType::f16) return f16_to_f32(static_cast<const std::uint16_t*>(data)[i]);
  if constexpr (type == DataType::bf16) return bf16_to_f32(static_cast<const std::uint16_t*>(data)[i]);
}

void add_product(double a, double b, Reduction& result) {
  result.sum += a * b;
  result.sum_abs += std::abs(a * b);
  if (!(std::abs(a) <= result.largest_a)) {
    result.largest_a = std::isnan(a) ? std::numeric_limits<double>::infinity() : std::abs(a);
  }
  ++result.terms;
}

template <DataType type>
Reduction reduce_floats(const Geometry& geometry, const Coords& at, const Operands& operands) {
  Reduction result;
  for_each_term(geometry, at, [&](std::int64_t i, std::int64_t j) {
    add_product(load<type>(operands.a, i), load<type>(operands.b, j), result);
  });
  return result;
}

Reduction reduce_any_floats(const Geometry& geometry, const Coords& at, const Operands& operands) {
  Reduction result;
  for_each_term(geometry, at, [&](std::int64_t i, std::int64_t j) {
    add_product(load_as_double(operands.a_type, operands.a, i), load_as_double(operands.b_type, operands.b, j), result);
  });
  return result;
}

std::int32_t load_integer(DataType type, const void* data, std::int64_t i) {
  if (type == DataType::s8) return static_cast<const std::int8_t*>(data)[i];
  if (type == DataType::u8) return static_cast<const std::uint8_t*>(data)[i];
  return static_cast<std::int32_t>(load_as_double(type, data, i));
}

Reduction reduce_integers(const Geometry& geometry, const Coords& at, const Operands& operands) {
  Reduction result;
  std::uint32_t sum = 0;  // unsigned, because signed overflow is undefined
  const auto a_zero_point = static_cast<std::uint32_t>(operands.a_zero_point);
  const auto b_zero_point = static_cast<std::uint32_t>(operands.b_zero_point);
  for_each_term(geometry, at, [&](std::int64_t i, std::int64_t j) {
    const auto a = static_cast<std::uint32_t>(load_integer(operands.a_type, operands.a, i));
    const auto b = static_cast<std::uint32_t>(load_integer(operands.b_type, operands.b, j));
    const std::uint32_t product = (a - a_zero_point) * (b - b_zero_point);
    sum += product;
    result.sum_abs += std::abs(static_cast<double>(static_cast<std::int32_t>(product)));
    ++result.terms;
  });
  result.sum = static_cast<std::int32_t>(sum);
  return result;
}

}  // namespace

ReduceFunction reduce_function(const ConvProblem& problem, const Operands& operands) {
  if (problem.compute == DataType::s32) return reduce_integers;
  if (operands.a_type == operands.b_type) {
    switch (operands.a_type) {
      case DataType::f64:
        return reduce_floats<DataType::f64>;
      case DataType::f32:
        return reduce_floats<DataType::f32>;
      case DataType::f16:
        return reduce_floats<DataType::f16>;
      case DataType::bf16:
        return reduce_floats<DataType::bf16>;
      default:
        break;
    }
  }
  return reduce_any_floats;
}

}  // namespace convoy::reference
