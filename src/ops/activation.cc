// Activations: functions of one element with parameters from attributes. Formulas are ONNX's.
#include "ops/families.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

struct Relu : PlainFunction<Relu, kMathFloats | kSignedIntegers> {
  template <class C>
  C operator()(C x) const {
    return x < C(0) ? C(0) : x;  // keeps NaN
  }
};

const UnaryOperator<Relu> relu;

}  // namespace

std::vector<OperatorRow> activation_rows() { return {{"Relu", &relu}}; }

}  // namespace convoy::ops
