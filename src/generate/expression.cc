#include "generate/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <set>

#include "generate/text.h"

namespace convoy::generate {
namespace {

struct Definition {
  const char* name;
  int operands;
  const char* text;
};

constexpr Definition kDefinitions[] = {
#define CONVOY_ONE(name, kind, expression) {#name, 1, #expression},
#define CONVOY_TWO(name, kind, expression) {#name, 2, #expression},
#define CONVOY_THREE(name, kind, expression) {#name, 3, #expression},
    CONVOY_ELEMENT_FUNCTIONS(CONVOY_ONE, CONVOY_TWO, CONVOY_THREE)
#undef CONVOY_ONE
#undef CONVOY_TWO
#undef CONVOY_THREE
};

const Definition& definition(Function function) { return kDefinitions[static_cast<std::size_t>(function)]; }

}  // namespace

int operand_count(Function function) { return definition(function).operands; }

std::string cuda_text(const Expression& expression, int inputs, const std::string& name, const std::string& type,
                      const std::string& unsigned_type) {
  const std::string own = name + "_";  // before names of its own
  std::string text = fmt::format("namespace {}types {{ typedef {} C; typedef {} U; }}\n", own, type, unsigned_type);
  std::set<Function> used;
  for (const Expression::Step& step : expression.steps) used.insert(step.function);
  for (const Function function : used) {
    const Definition& d = definition(function);
    text += fmt::format(
        "__device__ inline {0}types::C {0}{1}(const {0}types::C a{2}{3}) {{ using namespace {0}types; return {4}; }}\n",
        own, d.name, d.operands > 1 ? ", const " + own + "types::C b" : "",
        d.operands > 2 ? ", const " + own + "types::C c" : "", d.text);
  }
  const auto term = [&](const Term& t) {
    if (t.kind == Term::input) return fmt::format("x{}", t.index);
    if (t.kind == Term::step) return fmt::format("v{}", t.index);
    return number_text(expression.constants[static_cast<std::size_t>(t.index)]);
  };
  std::string parameters;
  for (int i = 0; i < inputs; ++i) parameters += fmt::format("{}const {} x{}", i > 0 ? ", " : "", type, i);
  text += fmt::format("__device__ inline {} {}({}) {{\n  typedef {} C;\n", type, name, parameters, type);
  for (std::size_t i = 0; i < expression.steps.size(); ++i) {
    const Expression::Step& step = expression.steps[i];
    const Definition& d = definition(step.function);
    std::string operands = term(step.a);
    if (d.operands > 1) operands += ", " + term(step.b);
    if (d.operands > 2) operands += ", " + term(step.c);
    text += fmt::format("  const C v{} = {}{}({});\n", i, own, d.name, operands);
  }
  return text + fmt::format("  return {};\n}}\n", term(expression.result));
}

Term Value::term_in(Expression& expression) const {
  if (expression_ != nullptr) {
    assert(expression_ == &expression);
    return term_;
  }
  const auto same = [bits = std::bit_cast<std::uint64_t>(number_)](double constant) {  // -0 is another, NaN one
    return std::bit_cast<std::uint64_t>(constant) == bits;
  };
  auto& constants = expression.constants;
  auto found = std::find_if(constants.begin(), constants.end(), same);
  if (found == constants.end()) found = constants.insert(constants.end(), number_);
  return {Term::constant, static_cast<int>(found - constants.begin())};
}

Value Value::of(Function function, const Value& a, const Value& b) {
  const std::array both{a, b};
  return join(function, {both.data(), 2});
}

Value Value::of(Function function, const Value& a, const Value& b, const Value& c) {
  const std::array all{a, b, c};
  return join(function, {all.data(), 3});
}

Value Value::join(Function function, Operands operands) {
  Expression* expression = nullptr;
  for (int i = 0; i < operands.count; ++i) {
    if (operands.first[i].expression_ != nullptr) expression = operands.first[i].expression_;
  }
  assert(expression != nullptr && operands.count == operand_count(function));
  Expression::Step step{function, operands.first[0].term_in(*expression)};
  if (operands.count > 1) step.b = operands.first[1].term_in(*expression);
  if (operands.count > 2) step.c = operands.first[2].term_in(*expression);
  expression->steps.push_back(step);
  return {*expression, {Term::step, static_cast<int>(expression->steps.size()) - 1}};
}

}  // namespace convoy::generate
