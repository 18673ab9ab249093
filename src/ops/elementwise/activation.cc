// Activations: functions of one element with parameters from attributes. Formulas are ONNX's.
#include <cmath>

#include "ops/families.h"
#include "ops/from_real.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

template <class C>
C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

// log(1 + exp(x)) without overflow for large x and without losing small results.
template <class C>
C softplus(C x) {
  return std::max(x, C(0)) + std::log1p(std::exp(-std::abs(x)));
}

struct Relu : PlainFunction<Relu, kMathFloats | kSignedIntegers> {
  template <class C>
  C operator()(C x) const {
    return x < C(0) ? C(0) : x;  // keeps NaN
  }
  RowFunction vectors() const { return {RowFunction::relu}; }
};

#define CONVOY_FLOAT_FUNCTION(Name, expression)    \
  struct Name : PlainFunction<Name, kMathFloats> { \
    template <class C>                             \
    C operator()(C x) const {                      \
      return expression;                           \
    }                                              \
  };
CONVOY_FLOAT_FUNCTION(Softplus, softplus(x))
CONVOY_FLOAT_FUNCTION(Softsign, x / (C(1) + std::abs(x)))
#undef CONVOY_FLOAT_FUNCTION

// Those that there are vectors for.
#define CONVOY_ROW_FUNCTION(Name, expression, kind)             \
  struct Name : PlainFunction<Name, kMathFloats> {              \
    template <class C>                                          \
    C operator()(C x) const {                                   \
      return expression;                                        \
    }                                                           \
    RowFunction vectors() const { return {RowFunction::kind}; } \
  };
CONVOY_ROW_FUNCTION(Sigmoid, sigmoid(x), sigmoid)
CONVOY_ROW_FUNCTION(Tanh, std::tanh(x), tanh)
CONVOY_ROW_FUNCTION(HardSwish, x* std::max(std::min(x* C(1.0 / 6) + C(0.5), C(1)), C(0)), hard_swish)
CONVOY_ROW_FUNCTION(Mish, x* std::tanh(softplus(x)), mish)
#undef CONVOY_ROW_FUNCTION

// Functions with real attributes a and b.
template <class F>
struct WithParameters {
  static constexpr TypeSet kTypes = kMathFloats;
  double a = 0;
  double b = 0;
  static Result<F> make(const NodeDesc& node) {
    F f;
    CONVOY_TRY(f.a, node.real(F::kNames[0], F::kDefaults[0]));
    if constexpr (std::size(F::kNames) > 1) {
      CONVOY_TRY(f.b, node.real(F::kNames[1], F::kDefaults[1]));
    }
    return f;
  }
};

struct LeakyRelu : WithParameters<LeakyRelu> {
  static constexpr const char* kNames[] = {"alpha"};
  static constexpr double kDefaults[] = {0.01};
  template <class C>
  C operator()(C x) const {
    return x < C(0) ? C(a) * x : x;
  }
  RowFunction vectors() const { return {RowFunction::leaky_relu, static_cast<float>(a)}; }
};

struct Elu : WithParameters<Elu> {
  static constexpr const char* kNames[] = {"alpha"};
  static constexpr double kDefaults[] = {1};
  template <class C>
  C operator()(C x) const {
    return x < C(0) ? C(a) * std::expm1(x) : x;
  }
  RowFunction vectors() const { return {RowFunction::elu, static_cast<float>(a)}; }
};

struct Selu : WithParameters<Selu> {
  static constexpr const char* kNames[] = {"alpha", "gamma"};
  static constexpr double kDefaults[] = {1.67326319217681884765625, 1.05070102214813232421875};
  template <class C>
  C operator()(C x) const {
    return C(b) * (x <= C(0) ? C(a) * std::expm1(x) : x);
  }
};

struct Celu : WithParameters<Celu> {
  static constexpr const char* kNames[] = {"alpha"};
  static constexpr double kDefaults[] = {1};
  template <class C>
  C operator()(C x) const {
    return x < C(0) ? C(a) * std::expm1(x / C(a)) : x;
  }
};

struct HardSigmoid : WithParameters<HardSigmoid> {
  static constexpr const char* kNames[] = {"alpha", "beta"};
  static constexpr double kDefaults[] = {0.2, 0.5};
  template <class C>
  C operator()(C x) const {
    return std::max(std::min(C(a) * x + C(b), C(1)), C(0));  // keeps NaN
  }
  RowFunction vectors() const { return {RowFunction::hard_sigmoid, static_cast<float>(a), static_cast<float>(b)}; }
};

struct ThresholdedRelu : WithParameters<ThresholdedRelu> {
  static constexpr const char* kNames[] = {"alpha"};
  static constexpr double kDefaults[] = {1};
  template <class C>
  C operator()(C x) const {
    return x <= C(a) ? C(0) : x;
  }
};

struct Swish : WithParameters<Swish> {
  static constexpr const char* kNames[] = {"alpha"};
  static constexpr double kDefaults[] = {1};
  template <class C>
  C operator()(C x) const {
    return x * sigmoid(C(a) * x);
  }
  RowFunction vectors() const { return {RowFunction::swish, static_cast<float>(a)}; }
};

struct Shrink : WithParameters<Shrink> {
  static constexpr TypeSet kTypes = kMathNumeric;
  static constexpr const char* kNames[] = {"lambd", "bias"};
  static constexpr double kDefaults[] = {0.5, 0};
  template <class C>
  C operator()(C x) const {
    if constexpr (std::is_floating_point_v<C>) {
      return x < C(-a) ? x + C(b) : x > C(a) ? x - C(b) : C(0);
    } else {
      const double value = static_cast<double>(x);
      return from_real<C>(value < -a ? value + b : value > a ? value - b : 0);
    }
  }
};

struct Gelu {
  static constexpr TypeSet kTypes = kMathFloats;
  bool by_tanh = false;
  static Result<Gelu> make(const NodeDesc& node) {
    const Result<std::string> approximate = node.text("approximate", "none");
    if (!approximate.ok()) return approximate.error();
    if (*approximate != "none" && *approximate != "tanh") {
      return bad_node(node, "approximate='" + *approximate + "', it must be 'none' or 'tanh'");
    }
    return Gelu{*approximate == "tanh"};
  }
  template <class C>
  C operator()(C x) const {
    if (by_tanh) {
      return C(0.5) * x * (C(1) + std::tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
    }
    return C(0.5) * x * (C(1) + std::erf(x * C(0.70710678118654752440)));
  }
  RowFunction vectors() const { return {by_tanh ? RowFunction::gelu_tanh : RowFunction::gelu}; }
};

const UnaryOperator<Relu> op_Relu;
const UnaryOperator<LeakyRelu> op_LeakyRelu;
const UnaryOperator<Elu> op_Elu;
const UnaryOperator<Selu> op_Selu;
const UnaryOperator<Celu> op_Celu;
const UnaryOperator<Sigmoid> op_Sigmoid;
const UnaryOperator<Tanh> op_Tanh;
const UnaryOperator<HardSigmoid> op_HardSigmoid;
const UnaryOperator<HardSwish> op_HardSwish;
const UnaryOperator<Softplus> op_Softplus;
const UnaryOperator<Softsign> op_Softsign;
const UnaryOperator<ThresholdedRelu> op_ThresholdedRelu;
const UnaryOperator<Gelu> op_Gelu;
const UnaryOperator<Mish> op_Mish;
const UnaryOperator<Swish> op_Swish;
const UnaryOperator<Shrink> op_Shrink;

}  // namespace

std::vector<OperatorRow> activation_rows() {
  return {
      {"Relu", &op_Relu},
      {"LeakyRelu", &op_LeakyRelu},
      {"Elu", &op_Elu},
      {"Selu", &op_Selu},
      {"Celu", &op_Celu},
      {"Sigmoid", &op_Sigmoid},
      {"Tanh", &op_Tanh},
      {"HardSigmoid", &op_HardSigmoid},
      {"HardSwish", &op_HardSwish},
      {"Softplus", &op_Softplus},
      {"Softsign", &op_Softsign},
      {"ThresholdedRelu", &op_ThresholdedRelu},
      {"Gelu", &op_Gelu},
      {"Mish", &op_Mish},
      {"Swish", &op_Swish},
      {"Shrink", &op_Shrink},
  };
}

}  // namespace convoy::ops
