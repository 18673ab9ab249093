// Comparisons (bool results) and logic of two operands.
#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

using namespace elements;

constexpr TypeSet kBool = only(DataType::boolean);

#define CONVOY_COMPARISON(Name, types, expression)                                       \
  constexpr ElementwiseOperator op_##Name({types, 2,                                     \
                                           [](Description& d) {                          \
                                             const Value a = d.input(0), b = d.input(1); \
                                             return expression;                          \
                                           },                                            \
                                           true});
CONVOY_COMPARISON(Equal, kMathNumeric | kBool, equal(a, b))
CONVOY_COMPARISON(Greater, kMathNumeric, b < a)
CONVOY_COMPARISON(GreaterOrEqual, kMathNumeric, b <= a)
CONVOY_COMPARISON(Less, kMathNumeric, a < b)
CONVOY_COMPARISON(LessOrEqual, kMathNumeric, a <= b)
CONVOY_COMPARISON(And, kBool, bits_and(a, b))
CONVOY_COMPARISON(Or, kBool, bits_or(a, b))
CONVOY_COMPARISON(Xor, kBool, bits_xor(a, b))
#undef CONVOY_COMPARISON

}  // namespace

std::vector<OperatorRow> comparison_rows() {
  return {
      element_row("Equal", op_Equal, Rate::elements, values::mapped_two),
      element_row("Greater", op_Greater, Rate::elements, values::mapped_two),
      element_row("GreaterOrEqual", op_GreaterOrEqual, Rate::elements, values::mapped_two),
      element_row("Less", op_Less, Rate::elements, values::mapped_two),
      element_row("LessOrEqual", op_LessOrEqual, Rate::elements, values::mapped_two),
      element_row("And", op_And, Rate::elements, values::mapped_two),
      element_row("Or", op_Or, Rate::elements, values::mapped_two),
      element_row("Xor", op_Xor, Rate::elements, values::mapped_two),
  };
}

}  // namespace convoy::ops
