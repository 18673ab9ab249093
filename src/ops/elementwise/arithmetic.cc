// Arithmetic of two operands. Integers wrap; an integer divided by 0 gives 0 instead of a trap (ONNX leaves it
// undefined), and the one signed quotient that overflows, lowest / -1, wraps to lowest.
#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

using namespace elements;

// With fmod the remainder takes the sign of a, otherwise of b.
Value remainder(Description& d) {
  const bool as_a = d.integer("fmod", 0) != 0;
  const Value a = d.input(0), b = d.input(1);
  if (d.is_float()) {
    if (!as_a && d.node().opset < 28) d.refuse("fmod=0 takes integers only before opset 28, floats need fmod=1");
    const Value rest = fmod(a, b);
    if (as_a) return rest;
    const Value same_sign = equal(rest < 0.0, b < 0.0);
    return select(equal(rest, rest), select(equal(rest, 0.0), copysign(rest, b), select(same_sign, rest, rest + b)),
                  rest);
  }
  const Value rest = residue(a, b);
  if (as_a) return rest;
  return select(rest, select(equal(rest < 0.0, b < 0.0), rest, rest + b), rest);
}

Value shift(Description& d) {
  if (d.node().opset < 28 && !d.is_unsigned()) {
    d.refuse("signed integers are shifted from opset 28 on, this is opset " + std::to_string(d.node().opset));
  }
  const std::string direction = d.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    d.refuse("direction='" + direction + "', it must be 'LEFT' or 'RIGHT'");
  }
  return direction == "LEFT" ? shift_left(d.input(0), d.input(1)) : shift_right(d.input(0), d.input(1));
}

#define CONVOY_OF_TWO(Name, types, function) \
  constexpr ElementwiseOperator op_##Name({types, 2, [](Description& d) { return function(d.input(0), d.input(1)); }});
CONVOY_OF_TWO(Add, kMathNumeric, add)
CONVOY_OF_TWO(Sub, kMathNumeric, sub)
CONVOY_OF_TWO(Mul, kMathNumeric, mul)
CONVOY_OF_TWO(BitwiseAnd, kIntegers, bits_and)
CONVOY_OF_TWO(BitwiseOr, kIntegers, bits_or)
CONVOY_OF_TWO(BitwiseXor, kIntegers, bits_xor)
#undef CONVOY_OF_TWO

constexpr ElementwiseOperator op_Div({kMathNumeric, 2, [](Description& d) {
                                        return d.is_float() ? d.input(0) / d.input(1)
                                                            : quotient(d.input(0), d.input(1));
                                      }});
constexpr ElementwiseOperator op_Mod({kMathNumeric, 2, remainder});
constexpr ElementwiseOperator op_BitShift({kIntegers, 2, shift});

}  // namespace

std::vector<OperatorRow> arithmetic_rows() {
  return {
      element_row("Add", op_Add, Rate::elements, values::mapped_two),
      element_row("Sub", op_Sub, Rate::elements, values::mapped_two),
      element_row("Mul", op_Mul, Rate::elements, values::mapped_two),
      element_row("Div", op_Div, Rate::elements, values::mapped_two),
      element_row("Mod", op_Mod, Rate::elements, values::mapped_two),
      element_row("BitShift", op_BitShift, Rate::elements, values::mapped_two),
      element_row("BitwiseAnd", op_BitwiseAnd, Rate::elements, values::mapped_two),
      element_row("BitwiseOr", op_BitwiseOr, Rate::elements, values::mapped_two),
      element_row("BitwiseXor", op_BitwiseXor, Rate::elements, values::mapped_two),
  };
}

}  // namespace convoy::ops
