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

constexpr ElementwiseOperator op_IsNaN({kFloats, 1,
                                        [](Description& d) { return equal(equal(d.input(), d.input()), 0.0); }, true});
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
      {"Abs", &op_Abs, images::element_wise, Rate::elements, values::mapped},
      {"Neg", &op_Neg, images::element_wise, Rate::elements, values::mapped},
      {"Sign", &op_Sign, images::element_wise, Rate::elements, values::mapped},
      {"Exp", &op_Exp, images::element_wise, Rate::functions, values::mapped},
      {"Log", &op_Log, images::element_wise, Rate::functions, values::mapped},
      {"Sqrt", &op_Sqrt, images::element_wise, Rate::functions, values::mapped},
      {"Floor", &op_Floor, images::element_wise, Rate::elements, values::mapped},
      {"Ceil", &op_Ceil, images::element_wise, Rate::elements, values::mapped},
      {"Reciprocal", &op_Reciprocal, images::element_wise, Rate::elements, values::mapped},
      {"Round", &op_Round, images::element_wise, Rate::elements, values::mapped},
      {"Erf", &op_Erf, images::element_wise, Rate::functions, values::mapped},
      {"Sin", &op_Sin, images::element_wise, Rate::functions, values::mapped},
      {"Cos", &op_Cos, images::element_wise, Rate::functions, values::mapped},
      {"Tan", &op_Tan, images::element_wise, Rate::functions, values::mapped},
      {"Asin", &op_Asin, images::element_wise, Rate::functions, values::mapped},
      {"Acos", &op_Acos, images::element_wise, Rate::functions, values::mapped},
      {"Atan", &op_Atan, images::element_wise, Rate::functions, values::mapped},
      {"Sinh", &op_Sinh, images::element_wise, Rate::functions, values::mapped},
      {"Cosh", &op_Cosh, images::element_wise, Rate::functions, values::mapped},
      {"Asinh", &op_Asinh, images::element_wise, Rate::functions, values::mapped},
      {"Acosh", &op_Acosh, images::element_wise, Rate::functions, values::mapped},
      {"Atanh", &op_Atanh, images::element_wise, Rate::functions, values::mapped},
      {"Not", &op_Not, images::element_wise, Rate::elements, values::mapped},
      {"BitwiseNot", &op_BitwiseNot, images::element_wise, Rate::elements, values::mapped},
      {"IsNaN", &op_IsNaN, images::element_wise, Rate::elements, values::mixed},
      {"IsInf", &op_IsInf, images::element_wise, Rate::elements, values::mixed},
  };
}

}  // namespace convoy::ops
