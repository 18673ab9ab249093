// Arithmetic of two operands. Integers wrap, being computed unsigned; an integer divided by 0 gives 0 instead of a trap
// (ONNX leaves it undefined).
#include <cmath>
#include <limits>
#include <utility>

#include "ops/elementwise/binary.h"
#include "ops/families.h"

namespace convoy::ops {
namespace {

// a op b without signed overflow: at least 32 bits wide, so that small types are not promoted to signed int.
template <class C, class Op>
C wrapping(C a, C b, Op op) {
  if constexpr (std::is_floating_point_v<C>) {
    return op(a, b);
  } else {
    using Wide = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;
    return static_cast<C>(op(static_cast<Wide>(a), static_cast<Wide>(b)));
  }
}

struct Add : PlainBinary<Add, kMathNumeric> {
  static constexpr auto kVectors = RowCombination::add;
  template <class C>
  C operator()(C a, C b) const {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};

struct Sub : PlainBinary<Sub, kMathNumeric> {
  static constexpr auto kVectors = RowCombination::sub;
  template <class C>
  C operator()(C a, C b) const {
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};

struct Mul : PlainBinary<Mul, kMathNumeric> {
  static constexpr auto kVectors = RowCombination::mul;
  template <class C>
  C operator()(C a, C b) const {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};

// The one signed quotient that overflows, lowest / -1, wraps to lowest.
template <class C>
bool quotient_overflows(C a, C b) {
  return std::is_signed_v<C> && a == std::numeric_limits<C>::min() && b == static_cast<C>(-1);
}

struct Div : PlainBinary<Div, kMathNumeric> {
  static constexpr auto kVectors = RowCombination::div;
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>) {
      return a / b;
    } else {
      return b == 0 ? C(0) : quotient_overflows(a, b) ? a : static_cast<C>(a / b);
    }
  }
};

struct Mod {
  static constexpr TypeSet kTypes = kMathNumeric;
  bool fmod = false;  // the remainder takes the sign of a, otherwise of b
  static Result<Mod> make(const NodeDesc& node, DataType type) {
    CONVOY_TRY(const std::int64_t fmod, node.integer("fmod", 0));
    if (fmod == 0 && is_floating(type) && node.opset < 28) {
      return bad_node(node, "fmod=0 takes integers only before opset 28, floats need fmod=1");
    }
    return Mod{fmod != 0};
  }
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>) {
      const C remainder = std::fmod(a, b);
      if (fmod || remainder != remainder) return remainder;
      if (remainder == 0) return std::copysign(remainder, b);
      return (remainder < 0) != (b < 0) ? remainder + b : remainder;
    } else {
      if (b == 0 || quotient_overflows(a, b)) return C(0);
      const C remainder = static_cast<C>(a % b);
      if constexpr (std::is_signed_v<C>) {
        if (!fmod && remainder != 0 && (remainder < 0) != (b < 0)) return static_cast<C>(remainder + b);
      }
      return remainder;
    }
  }
};

struct BitShift {
  static constexpr TypeSet kTypes = kIntegers;
  bool left = false;
  static Result<BitShift> make(const NodeDesc& node, DataType type) {
    if (node.opset < 28 && !contains(kUnsignedIntegers, type)) {
      return bad_node(node,
                      "signed integers are shifted from opset 28 on, this is opset " + std::to_string(node.opset));
    }
    CONVOY_TRY(const std::string direction, node.text("direction", ""));
    if (direction != "LEFT" && direction != "RIGHT") {
      return bad_node(node, "direction='" + direction + "', it must be 'LEFT' or 'RIGHT'");
    }
    return BitShift{direction == "LEFT"};
  }
  template <class C>
  C operator()(C a, C b) const {
    // All bits out, or a shift that is none: what is left is the sign (of a right shift).
    if (std::cmp_less(b, 0) || std::cmp_greater_equal(b, sizeof(C) * 8)) {
      return !left && std::cmp_less(a, 0) ? static_cast<C>(-1) : C(0);
    }
    return static_cast<C>(left ? static_cast<std::uint64_t>(a) << b : a >> b);
  }
};

#define CONVOY_BITWISE(Name, symbol)           \
  struct Name : PlainBinary<Name, kIntegers> { \
    template <class C>                         \
    C operator()(C a, C b) const {             \
      return static_cast<C>(a symbol b);       \
    }                                          \
  };
CONVOY_BITWISE(BitwiseAnd, &)
CONVOY_BITWISE(BitwiseOr, |)
CONVOY_BITWISE(BitwiseXor, ^)
#undef CONVOY_BITWISE

const BinaryOperator<Add> op_Add;
const BinaryOperator<Sub> op_Sub;
const BinaryOperator<Mul> op_Mul;
const BinaryOperator<Div> op_Div;
const BinaryOperator<Mod> op_Mod;
const BinaryOperator<BitShift> op_BitShift;
const BinaryOperator<BitwiseAnd> op_BitwiseAnd;
const BinaryOperator<BitwiseOr> op_BitwiseOr;
const BinaryOperator<BitwiseXor> op_BitwiseXor;

}  // namespace

std::vector<OperatorRow> arithmetic_rows() {
  return {
      {"Add", &op_Add},
      {"Sub", &op_Sub},
      {"Mul", &op_Mul},
      {"Div", &op_Div},
      {"Mod", &op_Mod},
      {"BitShift", &op_BitShift},
      {"BitwiseAnd", &op_BitwiseAnd},
      {"BitwiseOr", &op_BitwiseOr},
      {"BitwiseXor", &op_BitwiseXor},
  };
}

}  // namespace convoy::ops
