// Activations: functions of one element with parameters from attributes. Formulas are ONNX's.
#include <array>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

using namespace elements;

Value sigmoid(const Value& x) { return 1.0 / (1.0 + exp(-x)); }

// log(1 + exp(x)) without overflow for large x and without losing small results.
Value softplus(const Value& x) { return max(x, 0.0) + log1p(exp(-absolute(x))); }

// x / 2 * (1 + part)
Value half_times(const Value& x, const Value& part) { return 0.5 * x * (1.0 + part); }

Value gelu(Description& d) {
  const std::string approximate = d.text("approximate", "none");
  const Value x = d.input();
  if (approximate == "tanh") {
    d.has_vectors({RowFunction::gelu_tanh});
    return half_times(x, tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }
  if (approximate != "none") d.refuse("approximate='" + approximate + "', it must be 'none' or 'tanh'");
  d.has_vectors({RowFunction::gelu});
  return half_times(x, erf(x * 0.70710678118654752440));
}

constexpr ElementwiseOperator op_Relu({kMathFloats | kSignedIntegers, 1, [](Description& d) {
                                         d.has_vectors({RowFunction::relu});
                                         if (!d.is_float()) return max(d.input(), 0.0);   // one step
                                         return select(d.input() < 0.0, 0.0, d.input());  // keeps NaN
                                       }});
constexpr ElementwiseOperator op_LeakyRelu({kMathFloats, 1, [](Description& d) {
                                              const double alpha = d.real("alpha", 0.01);
                                              d.has_vectors({RowFunction::leaky_relu, static_cast<float>(alpha)});
                                              return leaky(d.input(), alpha);
                                            }});
constexpr ElementwiseOperator op_Elu({kMathFloats, 1, [](Description& d) {
                                        const double alpha = d.real("alpha", 1);
                                        d.has_vectors({RowFunction::elu, static_cast<float>(alpha)});
                                        return select(d.input() < 0.0, alpha * expm1(d.input()), d.input());
                                      }});
constexpr ElementwiseOperator op_Selu({kMathFloats, 1, [](Description& d) {
                                         const double alpha = d.real("alpha", 1.67326319217681884765625);
                                         const double gamma = d.real("gamma", 1.05070102214813232421875);
                                         const Value x = d.input();
                                         return gamma * select(x <= 0.0, alpha * expm1(x), x);
                                       }});
constexpr ElementwiseOperator op_Celu({kMathFloats, 1, [](Description& d) {
                                         const double alpha = d.real("alpha", 1);
                                         const Value x = d.input();
                                         return select(x < 0.0, alpha * expm1(x / alpha), x);
                                       }});
constexpr ElementwiseOperator op_Sigmoid({kMathFloats, 1, [](Description& d) {
                                            d.has_vectors({RowFunction::sigmoid});
                                            return sigmoid(d.input());
                                          }});
constexpr ElementwiseOperator op_Tanh({kMathFloats, 1, [](Description& d) {
                                         d.has_vectors({RowFunction::tanh});
                                         return tanh(d.input());
                                       }});
constexpr ElementwiseOperator op_HardSigmoid(
    {kMathFloats, 1, [](Description& d) {
       const double alpha = d.real("alpha", 0.2), beta = d.real("beta", 0.5);
       d.has_vectors({RowFunction::hard_sigmoid, static_cast<float>(alpha), static_cast<float>(beta)});
       return max(min(alpha * d.input() + beta, 1.0), 0.0);
     }});
constexpr ElementwiseOperator op_HardSwish({kMathFloats, 1, [](Description& d) {
                                              d.has_vectors({RowFunction::hard_swish});
                                              const Value x = d.input();
                                              return x * max(min(x * (1.0 / 6) + 0.5, 1.0), 0.0);
                                            }});
constexpr ElementwiseOperator op_Softplus({kMathFloats, 1, [](Description& d) { return softplus(d.input()); }});
constexpr ElementwiseOperator op_Softsign({kMathFloats, 1, [](Description& d) {
                                             d.has_vectors({RowFunction::softsign});
                                             return d.input() / (1.0 + absolute(d.input()));
                                           }});
constexpr ElementwiseOperator op_ThresholdedRelu({kMathFloats, 1, [](Description& d) {
                                                    return select(d.input() <= d.real("alpha", 1), 0.0, d.input());
                                                  }});
constexpr ElementwiseOperator op_Gelu({kMathFloats, 1, gelu});
constexpr ElementwiseOperator op_Mish({kMathFloats, 1, [](Description& d) {
                                         d.has_vectors({RowFunction::mish});
                                         return d.input() * tanh(softplus(d.input()));
                                       }});
constexpr ElementwiseOperator op_Swish({kMathFloats, 1, [](Description& d) {
                                          const double alpha = d.real("alpha", 1);
                                          d.has_vectors({RowFunction::swish, static_cast<float>(alpha)});
                                          return d.input() * sigmoid(alpha * d.input());
                                        }});
constexpr ElementwiseOperator op_Shrink({.types = kMathNumeric,
                                         .operands = 1,
                                         .describe =
                                             [](Description& d) {
                                               const double lambda = d.real("lambd", 0.5), bias = d.real("bias", 0);
                                               const Value x = d.input();
                                               const Value y =
                                                   select(x < -lambda, x + bias, select(x > lambda, x - bias, 0.0));
                                               return d.is_float() ? y : select(y < 0.0, ceil(y), floor(y));
                                             },
                                         .in_f64 = true});

}  // namespace

std::vector<OperatorRow> activation_rows() {
  return {
      element_row("Relu", op_Relu, Rate::elements, values::mapped),
      element_row("LeakyRelu", op_LeakyRelu, Rate::elements, values::mapped),
      element_row("Elu", op_Elu, Rate::functions, values::mapped),
      element_row("Selu", op_Selu, Rate::functions, values::mapped),
      element_row("Celu", op_Celu, Rate::functions, values::mapped),
      element_row("Sigmoid", op_Sigmoid, Rate::functions, values::mapped),
      element_row("Tanh", op_Tanh, Rate::functions, values::mapped),
      element_row("HardSigmoid", op_HardSigmoid, Rate::elements, values::mapped),
      element_row("HardSwish", op_HardSwish, Rate::elements, values::mapped),
      element_row("Softplus", op_Softplus, Rate::functions, values::mapped),
      element_row("Softsign", op_Softsign, Rate::elements, values::mapped),
      element_row("ThresholdedRelu", op_ThresholdedRelu, Rate::elements, values::mapped),
      element_row("Gelu", op_Gelu, Rate::functions, values::mapped),
      element_row("Mish", op_Mish, Rate::functions, values::mapped),
      element_row("Swish", op_Swish, Rate::functions, values::mapped),
      element_row("Shrink", op_Shrink, Rate::elements, values::mapped),
  };
}

}  // namespace convoy::ops
