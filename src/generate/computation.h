// What a kernel computes, as data: positions, where the elements that belong to a position lie, and expressions of
// them. It knows no operator and no device; kernel.h makes text of it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "convoy/tensor.h"
#include "generate/expression.h"

namespace convoy::generate {

// A coordinate of a tensor as a function of the position: offset + sum of factor * position[dim]; with a table, the
// table's entry at that, where -1 is outside; with an input, that input's integer at that, of which a negative one
// counts from the end. Or a value alone: the whole part of what it computes of loads in front of this one, and of folds
// where it is a store's.
struct Coordinate {
  struct Part {
    int dim;
    std::int64_t factor = 1;
  };
  std::vector<Part> parts;
  std::int64_t offset = 0;
  std::vector<std::int32_t> table;
  int input = -1;
  DataType input_type = DataType::s64;
  std::optional<Expression> value = std::nullopt;

  static Coordinate of(int dim, std::int64_t factor = 1, std::int64_t offset = 0) { return {{{dim, factor}}, offset}; }
  static Coordinate at(std::int64_t offset) { return {{}, offset}; }
  static Coordinate computed(Expression value) {
    Coordinate made;
    made.value = std::move(value);
    return made;
  }
};

// An element of a tensor, whose channels are not in blocks: a coordinate a dim. It is outside where one of them is.
struct Subscript {
  TensorDesc tensor;
  std::vector<Coordinate> coordinates;

  // Dim d of the tensor is dim d of `rank` dims of the position, as numpy broadcasts (right-aligned).
  static Subscript broadcast(const TensorDesc& tensor, int rank);
};

struct Load {
  int input;  // of the node; -1: no tensor, the value is 1 inside,
  Subscript place;
  double outside = 0;                // the value there,
  int otherwise = -1;                // or that of this load, which stands behind
  std::vector<double> numbers = {};  // or these, finite and part of the text,
  bool counts = false;               // or how many elements lie before it
};

// value[i] = value of all positions of the folded dims, joined two at a time by `join`, in any order, from `start` on.
// The inputs of `value` are the loads, then what earlier folds gave; `then`, where it has a result, is applied to the
// outcome, which is for it the input that is numbered like this fold.
struct Fold {
  Expression join;  // of two inputs
  double start;
  Expression value;
  std::vector<Expression> then;  // one, or none
};

struct Store {
  int output;
  Subscript place;   // nothing is stored where it is outside
  Expression value;  // of the loads, then the folds
};

// For every position of the kept dims: the folds; then the stores, for each position of the folded dims where one of
// their terms depends on those. Positions number the kept dims first.
struct Computation {
  DataType type;  // of all values; 16-bit floats are f32, moved elements unsigned integers
  Dims kept, folded;
  std::vector<Load> loads;
  std::vector<Fold> folds;
  std::vector<Store> stores;
};

// Expressions: input `index` as it is, a function of inputs 0 and on, and what is written as of values.
Expression itself(int index = 0);
Expression of(Function function);
template <class Write>
Expression written(const Write& write) {
  Expression expression;
  const Value result = write([&](int index) { return Value(expression, {Term::input, index}); });
  expression.result = result.term_in(expression);
  return expression;
}

}  // namespace convoy::generate
