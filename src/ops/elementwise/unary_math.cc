// Mathematical functions of one element, without parameters (IsInf has two).
#include <cmath>

#include "ops/families.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

// Functions of floats that the standard library has under another name.
#define CONVOY_MATH_FUNCTION(Name, expression)     \
  struct Name : PlainFunction<Name, kMathFloats> { \
    template <class C>                             \
    C operator()(C x) const {                      \
      return expression;                           \
    }                                              \
  };                                               \
  const UnaryOperator<Name> op_##Name;
CONVOY_MATH_FUNCTION(Log, std::log(x))
CONVOY_MATH_FUNCTION(Sqrt, std::sqrt(x))
CONVOY_MATH_FUNCTION(Reciprocal, C(1) / x)
CONVOY_MATH_FUNCTION(Floor, std::floor(x))
CONVOY_MATH_FUNCTION(Ceil, std::ceil(x))
CONVOY_MATH_FUNCTION(Round, std::nearbyint(x))  // halves to even
CONVOY_MATH_FUNCTION(Sin, std::sin(x))
CONVOY_MATH_FUNCTION(Cos, std::cos(x))
CONVOY_MATH_FUNCTION(Tan, std::tan(x))
CONVOY_MATH_FUNCTION(Asin, std::asin(x))
CONVOY_MATH_FUNCTION(Acos, std::acos(x))
CONVOY_MATH_FUNCTION(Atan, std::atan(x))
CONVOY_MATH_FUNCTION(Sinh, std::sinh(x))
CONVOY_MATH_FUNCTION(Cosh, std::cosh(x))
CONVOY_MATH_FUNCTION(Asinh, std::asinh(x))
CONVOY_MATH_FUNCTION(Acosh, std::acosh(x))
CONVOY_MATH_FUNCTION(Atanh, std::atanh(x))
#undef CONVOY_MATH_FUNCTION

struct Exp : PlainFunction<Exp, kMathFloats> {
  template <class C>
  C operator()(C x) const {
    return std::exp(x);
  }
  RowFunction vectors() const { return {RowFunction::exp}; }
};

struct Erf : PlainFunction<Erf, kMathFloats> {
  template <class C>
  C operator()(C x) const {
    return std::erf(x);
  }
  RowFunction vectors() const { return {RowFunction::erf}; }
};

const UnaryOperator<Exp> op_Exp;
const UnaryOperator<Erf> op_Erf;

// Integers negate in unsigned arithmetic: the lowest value is its own negative, as in the field's other libraries.
template <class C>
C negative(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return -x;
  } else {
    return static_cast<C>(std::make_unsigned_t<C>(0) - static_cast<std::make_unsigned_t<C>>(x));
  }
}

struct Neg : PlainFunction<Neg, kMathFloats | kSignedIntegers> {
  template <class C>
  C operator()(C x) const {
    return negative(x);
  }
};

struct Abs : PlainFunction<Abs, kMathNumeric> {
  template <class C>
  C operator()(C x) const {
    if constexpr (std::is_floating_point_v<C>) {
      return std::abs(x);
    } else if constexpr (std::is_unsigned_v<C>) {
      return x;
    } else {
      return x < 0 ? negative(x) : x;
    }
  }
};

struct Sign : PlainFunction<Sign, kMathNumeric> {
  template <class C>
  C operator()(C x) const {
    return x > C(0) ? C(1) : x == C(0) ? C(0) : std::is_signed_v<C> && x < C(0) ? static_cast<C>(-1) : x;  // NaN stays
  }
};

struct Not : PlainFunction<Not, only(DataType::boolean)> {
  bool operator()(bool x) const { return !x; }
};

struct BitwiseNot : PlainFunction<BitwiseNot, kIntegers> {
  template <class C>
  C operator()(C x) const {
    return static_cast<C>(~x);
  }
};

struct IsNaN : PlainFunction<IsNaN, kFloats> {
  template <class C>
  bool operator()(C x) const {
    return x != x;
  }
};

struct IsInf {
  static constexpr TypeSet kTypes = kFloats;
  bool negative = true;
  bool positive = true;
  static Result<IsInf> make(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t detect_negative, node.integer("detect_negative", 1));
    CONVOY_TRY(const std::int64_t detect_positive, node.integer("detect_positive", 1));
    return IsInf{detect_negative != 0, detect_positive != 0};
  }
  template <class C>
  bool operator()(C x) const {
    return std::isinf(x) && (x > C(0) ? positive : negative);
  }
};

const UnaryOperator<Neg> op_Neg;
const UnaryOperator<Abs> op_Abs;
const UnaryOperator<Sign> op_Sign;
const UnaryOperator<Not> op_Not;
const UnaryOperator<BitwiseNot> op_BitwiseNot;
const UnaryOperator<IsNaN, true> op_IsNaN;
const UnaryOperator<IsInf, true> op_IsInf;

}  // namespace

std::vector<OperatorRow> unary_math_rows() {
#define CONVOY_ROW(Name) \
  { #Name, &op_##Name }
  return {
      CONVOY_ROW(Abs),   CONVOY_ROW(Neg),   CONVOY_ROW(Sign), CONVOY_ROW(Exp),        CONVOY_ROW(Log),
      CONVOY_ROW(Sqrt),  CONVOY_ROW(Floor), CONVOY_ROW(Ceil), CONVOY_ROW(Reciprocal), CONVOY_ROW(Round),
      CONVOY_ROW(Erf),   CONVOY_ROW(Sin),   CONVOY_ROW(Cos),  CONVOY_ROW(Tan),        CONVOY_ROW(Asin),
      CONVOY_ROW(Acos),  CONVOY_ROW(Atan),  CONVOY_ROW(Sinh), CONVOY_ROW(Cosh),       CONVOY_ROW(Asinh),
      CONVOY_ROW(Acosh), CONVOY_ROW(Atanh), CONVOY_ROW(Not),  CONVOY_ROW(BitwiseNot), CONVOY_ROW(IsNaN),
      CONVOY_ROW(IsInf),
  };
#undef CONVOY_ROW
}

}  // namespace convoy::ops
