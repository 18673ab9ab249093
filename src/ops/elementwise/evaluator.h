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
// The same of a program of one step, at most one of whose two operands has step 0 or is a constant: found once for many
// short rows. Not there for other programs, and where there is no loop from that type to y's.
class StepLoop {
 public:
  using Loop = void (*)(const void* a, const void* b, const void* c, void* y, std::int64_t count);

  // Inlined everywhere: units for several processors share no function.
  [[gnu::always_inline]] StepLoop() = default;
  // `constant`: the element that values beyond the inputs are.
  [[gnu::always_inline]] StepLoop(Loop loop, const Program::Step& step, int inputs, std::uint64_t constant)
      : loop_(loop), a_(step.a), b_(step.b), c_(step.c), inputs_(inputs), constant_(constant) {}

  [[gnu::always_inline]] explicit operator bool() const { return loop_ != nullptr; }
  // input(k): where input k's elements are.
  template <class F>
  [[gnu::always_inline]] void operator()(F input, void* y, std::int64_t count) const {
    const auto value = [&](int k) __attribute__((always_inline)) { return k < inputs_ ? input(k) : &constant_; };
    loop_(value(a_), value(b_), value(c_), y, count);
  }

 private:
  Loop loop_ = nullptr;
  int a_ = 0, b_ = 0, c_ = 0, inputs_ = 0;
  std::uint64_t constant_ = 0;
};

// For an instruction set that the processor has.
Evaluate evaluator(Isa isa);
// `inputs`: their steps alone matter.
StepLoop step_loop(Isa isa, const Program& program, DataType type, const ElementRow* inputs, DataType y_type);

namespace portable {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
StepLoop step_loop(const Program&, DataType, const ElementRow*, DataType);
}  // namespace portable
namespace avx2 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
StepLoop step_loop(const Program&, DataType, const ElementRow*, DataType);
}  // namespace avx2
namespace avx512 {
void evaluate(const Program&, DataType, const ElementRow*, DataType, void*, std::int64_t);
StepLoop step_loop(const Program&, DataType, const ElementRow*, DataType);
}  // namespace avx512

}  // namespace convoy::ops
