// Operators of any number of broadcasting operands: Max, Min, Sum, Mean.
#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

Value folded(Description& d, Value (*join)(const Value& a, const Value& b)) {
  Value made = d.input(0);
  for (int i = 1; i < d.inputs(); ++i) made = join(made, d.input(i));
  return made;
}

// A NaN operand wins, as in numpy.
constexpr ElementwiseOperator op_Max({kMathNumeric, 0, [](Description& d) { return folded(d, elements::max); }});
constexpr ElementwiseOperator op_Min({kMathNumeric, 0, [](Description& d) { return folded(d, elements::min); }});
constexpr ElementwiseOperator op_Sum({kMathFloats, 0, [](Description& d) { return folded(d, elements::add); }});
constexpr ElementwiseOperator op_Mean({kMathFloats, 0, [](Description& d) {
                                         const Value sum = folded(d, elements::add);
                                         return d.ends() ? sum / static_cast<double>(d.all()) : sum;
                                       }});

}  // namespace

std::vector<OperatorRow> variadic_rows() {
  return {element_row("Max", op_Max, Rate::elements, values::mixed),
          element_row("Min", op_Min, Rate::elements, values::mixed),
          element_row("Sum", op_Sum, Rate::elements, values::mixed),
          element_row("Mean", op_Mean, Rate::elements, values::mixed)};
}

}  // namespace convoy::ops
