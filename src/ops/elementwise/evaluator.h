// Expressions evaluated on rows of elements: a block of some hundreds at a time, each step by a loop that is compiled
// for every element type and instruction set. f16 and bf16 are computed in f32 and rounded once.
#pragma once

#include <array>

#include "convoy/cpu.h"
#include "convoy/data_type.h"
#include "convoy/result.h"
#include "generate/expression.h"

namespace convoy::ops {

using generate::Expression;
using generate::Function;
using generate::Term;

// An expression in the form that runs: values are numbered, inputs first, then constants, then places of results, which
// are used again once nothing needs them.
struct Program {
  static constexpr int kMostInputs = 64, kMostConstants = 12, kMostPlaces = 12, kMostSteps = 96;
  static constexpr int kMostValues = kMostInputs + kMostConstants + kMostPlaces;
  struct Step {
    Function function;
    std::uint8_t a, b, c, to;
  };
  std::array<Step, kMostSteps> steps;
  std::array<double, kMostConstants> constants;
  int inputs = 0, constant_count = 0, step_count = 0;
  int result = 0;  // which value
};

// An error where the expression is larger than a program can be.
Result<Program> compiled(const Expression& expression, int inputs);

struct ElementRow {
  const void* data;
  std::int64_t step;  // 0: one element for the whole row; 1
};

// y[i] = the program of inputs[k].data[i * inputs[k].step], which are of `type`; y of the same type or (what is not 0
// being true) boolean. y is an input with step 1, or overlaps none. `type`: any float or integer of whole bytes, or
// bool.
using Evaluate = void (*)(const Program& program, DataType type, const ElementRow* inputs, DataType y_type, void* y,
                          std::int64_t count);
// For an instruction set that the processor has.
Evaluate evaluator(Isa isa);

namespace portable {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
}
namespace avx2 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
}
namespace avx512 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
}

}  // namespace convoy::ops
