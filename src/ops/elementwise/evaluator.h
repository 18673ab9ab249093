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
// The same of a program of one step on floats or halves, where y has their type and at most one of two operands has
// step 0: found once for many short rows. Not there for other programs and where there are no vectors.
class StepLoop {
 public:
  using Rows = void (*)(const void* a, const void* b, const void* c, void* y, std::int64_t count);
  using Single = void (*)(const void* x, float number, void* y, std::int64_t count);

  // Inlined everywhere: units for several processors share no function.
  [[gnu::always_inline]] StepLoop() = default;
  [[gnu::always_inline]] StepLoop(Rows rows, const Program::Step& step)
      : rows_(rows), a_(step.a), b_(step.b), c_(step.c) {}
  // `a` runs along; b is one element, which `read` reads, or where there is no `read` the number.
  [[gnu::always_inline]] StepLoop(Single single, int a, int b, float (*read)(const void*), float number)
      : single_(single), a_(a), b_(b), read_(read), number_(number) {}

  [[gnu::always_inline]] explicit operator bool() const { return rows_ != nullptr || single_ != nullptr; }
  [[gnu::always_inline]] void operator()(const ElementRow* inputs, void* y, std::int64_t count) const {
    if (rows_ != nullptr) return rows_(inputs[a_].data, inputs[b_].data, inputs[c_].data, y, count);
    single_(inputs[a_].data, read_ == nullptr ? number_ : read_(inputs[b_].data), y, count);
  }

 private:
  Rows rows_ = nullptr;
  Single single_ = nullptr;
  int a_ = 0, b_ = 0, c_ = 0;
  float (*read_)(const void*) = nullptr;
  float number_ = 0;
};

// For an instruction set that the processor has.
Evaluate evaluator(Isa isa);
// `inputs`: their steps alone matter.
StepLoop step_loop(Isa isa, const Program& program, DataType type, const ElementRow* inputs, DataType y_type);

namespace portable {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
}
namespace avx2 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
StepLoop step_loop(const Program&, DataType, const ElementRow*, DataType);
}  // namespace avx2
namespace avx512 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
StepLoop step_loop(const Program&, DataType, const ElementRow*, DataType);
}  // namespace avx512

}  // namespace convoy::ops
