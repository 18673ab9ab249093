#include "ops/elementwise/evaluator.h"

#include <algorithm>
#include <vector>

namespace convoy::ops {

Result<Program> compiled(const Expression& expression, int inputs) {
  Program program;
  const auto too_large = [](const char* what) {
    return Error{ErrorCode::unsupported, std::string("an element-wise function has too many ") + what};
  };
  if (inputs > Program::kMostInputs) return too_large("operands");
  if (expression.constants.size() > Program::kMostConstants) return too_large("constants");
  if (expression.steps.size() > Program::kMostSteps) return too_large("steps");
  program.inputs = inputs;
  program.constant_count = static_cast<int>(expression.constants.size());
  std::copy(expression.constants.begin(), expression.constants.end(), program.constants.begin());

  const int steps = static_cast<int>(expression.steps.size());
  std::vector<int> last_use(static_cast<std::size_t>(steps), -1), place(static_cast<std::size_t>(steps), -1);
  const auto operands_of = [](const Expression::Step& step) {
    std::vector<Term> terms{step.a};
    if (operand_count(step.function) > 1) terms.push_back(step.b);
    if (operand_count(step.function) > 2) terms.push_back(step.c);
    return terms;
  };
  for (int i = 0; i < steps; ++i) {
    for (const Term& term : operands_of(expression.steps[static_cast<std::size_t>(i)])) {
      if (term.kind == Term::step) last_use[static_cast<std::size_t>(term.index)] = i;
    }
  }
  const auto value_of = [&](const Term& term) {
    if (term.kind == Term::input) return term.index;
    if (term.kind == Term::constant) return inputs + term.index;
    return inputs + program.constant_count + place[static_cast<std::size_t>(term.index)];
  };
  std::vector<int> free;
  int places = 0;
  for (int i = 0; i < steps; ++i) {
    const Expression::Step& step = expression.steps[static_cast<std::size_t>(i)];
    const std::vector<Term> terms = operands_of(step);
    Program::Step& made = program.steps[static_cast<std::size_t>(i)];
    made.function = step.function;
    made.a = static_cast<std::uint8_t>(value_of(terms[0]));
    made.b = static_cast<std::uint8_t>(value_of(terms.size() > 1 ? terms[1] : terms[0]));
    made.c = static_cast<std::uint8_t>(value_of(terms.size() > 2 ? terms[2] : terms[0]));
    // What is needed no more may be overwritten: each loop reads an element before it writes that one.
    for (const Term& term : terms) {
      if (term.kind != Term::step || last_use[static_cast<std::size_t>(term.index)] != i) continue;
      const int at = place[static_cast<std::size_t>(term.index)];
      if (std::find(free.begin(), free.end(), at) == free.end()) free.push_back(at);
    }
    if (free.empty()) {
      if (places == Program::kMostPlaces) return too_large("values at a time");
      free.push_back(places++);
    }
    place[static_cast<std::size_t>(i)] = free.back();
    free.pop_back();
    made.to = static_cast<std::uint8_t>(value_of({Term::step, i}));
  }
  program.step_count = steps;
  program.result = value_of(expression.result);
  return program;
}

Evaluate evaluator(Isa isa) {
  return isa >= Isa::avx512 ? avx512::evaluate : isa >= Isa::avx2 ? avx2::evaluate : portable::evaluate;
}

StepLoop step_loop(Isa isa, const Program& program, DataType type, const ElementRow* inputs, DataType y_type) {
  return (isa >= Isa::avx512 ? avx512::step_loop
          : isa >= Isa::avx2 ? avx2::step_loop
                             : portable::step_loop)(program, type, inputs, y_type);
}

}  // namespace convoy::ops
