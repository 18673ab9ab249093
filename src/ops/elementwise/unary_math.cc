// Mathematical functions of one element.
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

using namespace elements;

// Operators of floats that are a function.
#define CONVOY_MATH(Name, function) \
  constexpr ElementwiseOperator op_##Name({kMathFloats, 1, [](Description& d) { return function(d.input()); }});
CONVOY_MATH(Log, log)
CONVOY_MATH(Sqrt, sqrt)
CONVOY_MATH(Floor, floor)
CONVOY_MATH(Ceil, ceil)
CONVOY_MATH(Round, round)  // halves to even
CONVOY_MATH(Sin, sin)
CONVOY_MATH(Cos, cos)
CONVOY_MATH(Tan, tan)
CONVOY_MATH(Asin, asin)
CONVOY_MATH(Acos, acos)
CONVOY_MATH(Atan, atan)
CONVOY_MATH(Sinh, sinh)
CONVOY_MATH(Cosh, cosh)
CONVOY_MATH(Asinh, asinh)
CONVOY_MATH(Acosh, acosh)
CONVOY_MATH(Atanh, atanh)
#undef CONVOY_MATH

constexpr ElementwiseOperator op_Exp({kMathFloats, 1, [](Description& d) {
                                        d.has_vectors({RowFunction::exp});
                                        return exp(d.input());
                                      }});
constexpr ElementwiseOperator op_Erf({kMathFloats, 1, [](Description& d) {
                                        d.has_vectors({RowFunction::erf});
                                        return erf(d.input());
                                      }});
constexpr ElementwiseOperator op_Reciprocal({kMathFloats, 1, [](Description& d) { return 1.0 / d.input(); }});

// Integers wrap: the lowest value is its own negative, as in the field's other libraries.
constexpr ElementwiseOperator op_Neg({kMathFloats | kSignedIntegers, 1, [](Description& d) { return -d.input(); }});
constexpr ElementwiseOperator op_Abs({kMathNumeric, 1, [](Description& d) { return absolute(d.input()); }});
constexpr ElementwiseOperator op_Sign({kMathNumeric, 1, [](Description& d) { return sign(d.input()); }});

constexpr ElementwiseOperator op_Not({only(DataType::boolean), 1,
                                      [](Description& d) { return equal(d.input(), 0.0); }});
constexpr ElementwiseOperator op_BitwiseNot({kIntegers, 1, [](Description& d) { return complement(d.input()); }});

constexpr ElementwiseOperator op_IsNaN({kFloats, 1, [](Description& d) { return differs(d.input(), d.input()); },
                                        true});
constexpr ElementwiseOperator op_IsInf(
    {kFloats, 1,
     [](Description& d) {
       constexpr double kInfinity = std::numeric_limits<double>::infinity();
       const bool negative = d.integer("detect_negative", 1) != 0, positive = d.integer("detect_positive", 1) != 0;
       if (negative && positive) return equal(absolute(d.input()), kInfinity);
       // With neither no element is as large as what no number equals.
       return equal(d.input(), positive ? kInfinity : negative ? -kInfinity : std::numeric_limits<double>::quiet_NaN());
     },
     true});

}  // namespace

std::vector<OperatorRow> unary_math_rows() {
  return {
      element_row("Abs", op_Abs, Rate::elements, values::mapped),
      element_row("Neg", op_Neg, Rate::elements, values::mapped),
      element_row("Sign", op_Sign, Rate::elements, values::mapped),
      element_row("Exp", op_Exp, Rate::functions, values::mapped),
      element_row("Log", op_Log, Rate::functions, values::mapped),
      element_row("Sqrt", op_Sqrt, Rate::functions, values::mapped),
      element_row("Floor", op_Floor, Rate::elements, values::mapped),
      element_row("Ceil", op_Ceil, Rate::elements, values::mapped),
      element_row("Reciprocal", op_Reciprocal, Rate::elements, values::mapped),
      element_row("Round", op_Round, Rate::elements, values::mapped),
      element_row("Erf", op_Erf, Rate::functions, values::mapped),
      element_row("Sin", op_Sin, Rate::functions, values::mapped),
      element_row("Cos", op_Cos, Rate::functions, values::mapped),
      element_row("Tan", op_Tan, Rate::functions, values::mapped),
      element_row("Asin", op_Asin, Rate::functions, values::mapped),
      element_row("Acos", op_Acos, Rate::functions, values::mapped),
      element_row("Atan", op_Atan, Rate::functions, values::mapped),
      element_row("Sinh", op_Sinh, Rate::functions, values::mapped),
      element_row("Cosh", op_Cosh, Rate::functions, values::mapped),
      element_row("Asinh", op_Asinh, Rate::functions, values::mapped),
      element_row("Acosh", op_Acosh, Rate::functions, values::mapped),
      element_row("Atanh", op_Atanh, Rate::functions, values::mapped),
      element_row("Not", op_Not, Rate::elements, values::mapped),
      element_row("BitwiseNot", op_BitwiseNot, Rate::elements, values::mapped),
      element_row("IsNaN", op_IsNaN, Rate::elements, values::mixed),
      element_row("IsInf", op_IsInf, Rate::elements, values::mixed),
  };
}

}  // namespace convoy::ops
