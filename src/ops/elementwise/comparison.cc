// Comparisons (bool results) and logic of two operands.
#include "ops/elementwise/binary.h"
#include "ops/families.h"

namespace convoy::ops {
namespace {

#define CONVOY_COMPARISON(Name, types, symbol) \
  struct Name : PlainBinary<Name, types> {     \
    template <class C>                         \
    bool operator()(C a, C b) const {          \
      return a symbol b;                       \
    }                                          \
  };                                           \
  const BinaryOperator<Name, true> op_##Name;
CONVOY_COMPARISON(Equal, kMathNumeric | only(DataType::boolean), ==)
CONVOY_COMPARISON(Greater, kMathNumeric, >)
CONVOY_COMPARISON(GreaterOrEqual, kMathNumeric, >=)
CONVOY_COMPARISON(Less, kMathNumeric, <)
CONVOY_COMPARISON(LessOrEqual, kMathNumeric, <=)
CONVOY_COMPARISON(And, only(DataType::boolean), &&)
CONVOY_COMPARISON(Or, only(DataType::boolean), ||)
CONVOY_COMPARISON(Xor, only(DataType::boolean), !=)
#undef CONVOY_COMPARISON

}  // namespace

std::vector<OperatorRow> comparison_rows() {
  return {
      {"Equal", &op_Equal},
      {"Greater", &op_Greater},
      {"GreaterOrEqual", &op_GreaterOrEqual},
      {"Less", &op_Less},
      {"LessOrEqual", &op_LessOrEqual},
      {"And", &op_And},
      {"Or", &op_Or},
      {"Xor", &op_Xor},
  };
}

}  // namespace convoy::ops
