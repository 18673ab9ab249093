// Pieces of text that all schedules are written with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generate/lower.h"

namespace convoy::generate {

// A type as tensors have it in generate.cuh, and as values have it with what it wraps around in.
std::string element_name(DataType type);
struct ValueType {
  std::string name, wraps_in;
};
ValueType value_type(DataType type);

// A number as a constant of the type C; of -0 with its sign.
std::string number_text(double value);

// An expression as a function of its inputs that it needs.
struct Body {
  std::string definition;  // nothing where it only passes an input on
  std::string name;
  std::vector<int> inputs;

  Body() = default;
  Body(const Expression& expression, std::string function, const ValueType& type);
  // Of values that `value_of` has a text for.
  template <class Text>
  std::string of(const Text& value_of) const {
    std::string arguments;
    for (const int input : inputs) arguments += (arguments.empty() ? "" : ", ") + value_of(input);
    return definition.empty() ? arguments : name + "(" + arguments + ")";
  }
};

// "p0 * 56 + p2 + 3", of positions p0, p1 ..; `base` goes first.
std::string sum_text(const std::string& base, const std::vector<std::int64_t>& strides, std::int64_t constant);
std::string sum_text(const std::string& base, const Coordinate& coordinate);

// Declarations of the positions of dims [first, last), counted by `index`, which is of the unsigned type U; the fastest
// steps by `step`.
std::string positions_text(const Lowered& space, int first, int last, const std::string& index, int step,
                           const std::string& indent);

// Where an access is: its guard, "" where it is always inside, and its offset.
struct PlaceText {
  std::string guard, offset;
};
// `value_text`: of a computed coordinate's value, by its number.
PlaceText place_text(const Access& access, const std::string& kernel,
                     const std::function<std::string(int)>& value_text);

// The tables of a kernel, and its types: `I` and `U` for offsets.
std::string tables_text(const Lowered& space, const std::string& kernel);

}  // namespace convoy::generate
