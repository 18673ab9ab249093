// The function of one element as data: steps, each a function of earlier values. From it come the loops of every
// element type and instruction set (ops/elementwise/evaluator.h) and the text for CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate/element_functions.h"

namespace convoy::generate {

enum class Function : std::uint8_t {
#define CONVOY_NAME(name, kind, expression) name,
  CONVOY_ELEMENT_FUNCTIONS(CONVOY_NAME, CONVOY_NAME, CONVOY_NAME)
#undef CONVOY_NAME
};

// A value: an input of the element, a constant, or what a step gives.
struct Term {
  enum Kind : std::uint8_t { input, constant, step } kind = input;
  int index = 0;
  friend bool operator==(const Term&, const Term&) = default;
};

struct Expression {
  struct Step {
    Function function;
    Term a, b = {}, c = {};
  };
  std::vector<double> constants;
  std::vector<Step> steps;
  Term result;
};

int operand_count(Function function);

// A function `C name(const C x0, ..)` of CUDA C; C is `type` ("float", "signed char"), U the same unsigned.
std::string cuda_text(const Expression& expression, int inputs, const std::string& name, const std::string& type,
                      const std::string& unsigned_type);

// What expressions are written with: values of one expression, and numbers.
class Value {
 public:
  Value(Expression& expression, Term term) : expression_(&expression), term_(term) {}
  Value(double number) : number_(number) {}  // a number goes wherever a value goes

  // The value of a step on top of these; at least one of them is no number.
  static Value of(Function function, const Value& a) { return join(function, {&a, 1}); }
  static Value of(Function function, const Value& a, const Value& b);
  static Value of(Function function, const Value& a, const Value& b, const Value& c);
  Term term_in(Expression& expression) const;

 private:
  struct Operands {
    const Value* first;
    int count;
  };
  static Value join(Function function, Operands operands);

  Expression* expression_ = nullptr;  // null: a number
  Term term_;
  double number_ = 0;
};

#define CONVOY_OF_ONE(name, kind, expression) \
  inline Value name(const Value& a) { return Value::of(Function::name, a); }
#define CONVOY_OF_TWO(name, kind, expression) \
  inline Value name(const Value& a, const Value& b) { return Value::of(Function::name, a, b); }
#define CONVOY_OF_THREE(name, kind, expression) \
  inline Value name(const Value& a, const Value& b, const Value& c) { return Value::of(Function::name, a, b, c); }
namespace elements {
CONVOY_ELEMENT_FUNCTIONS(CONVOY_OF_ONE, CONVOY_OF_TWO, CONVOY_OF_THREE)
}  // namespace elements
#undef CONVOY_OF_ONE
#undef CONVOY_OF_TWO
#undef CONVOY_OF_THREE

inline Value operator-(const Value& a) { return elements::negate(a); }
inline Value operator+(const Value& a, const Value& b) { return elements::add(a, b); }
inline Value operator-(const Value& a, const Value& b) { return elements::sub(a, b); }
inline Value operator*(const Value& a, const Value& b) { return elements::mul(a, b); }
inline Value operator/(const Value& a, const Value& b) { return elements::div(a, b); }
inline Value operator<(const Value& a, const Value& b) { return elements::less(a, b); }
inline Value operator<=(const Value& a, const Value& b) { return elements::less_equal(a, b); }
inline Value operator>(const Value& a, const Value& b) { return elements::less(b, a); }

}  // namespace convoy::generate
