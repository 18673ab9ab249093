#include "generate/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy::generate {

std::string element_name(DataType type) {
  switch (type) {
    case DataType::f16:
      return "f16";
    case DataType::bf16:
      return "bf16";
    case DataType::boolean:
      return "boolean";
    default:
      return value_type(type).name;
  }
}

ValueType value_type(DataType type) {
  switch (type) {
    case DataType::f64:
      return {"double", "double"};
    case DataType::s64:
      return {"long long", "unsigned long long"};
    case DataType::s32:
      return {"int", "unsigned"};
    case DataType::s16:
      return {"short", "unsigned"};
    case DataType::s8:
      return {"signed char", "unsigned"};
    case DataType::u64:
      return {"unsigned long long", "unsigned long long"};
    case DataType::u32:
      return {"unsigned", "unsigned"};
    case DataType::u16:
      return {"unsigned short", "unsigned"};
    case DataType::u8:
    case DataType::boolean:
      return {"unsigned char", "unsigned"};
    default:
      return {"float", "float"};
  }
}

std::string number_text(double value) {
  if (std::isnan(value)) return "C(0.0 / 0.0)";
  if (std::isinf(value)) return fmt::format("C({}1.0 / 0.0)", value < 0 ? "-" : "");
  return fmt::format("C({:#})", value);
}

Body::Body(const Expression& expression, std::string function, const ValueType& type) : name(std::move(function)) {
  Expression dense = expression;
  const auto take = [&](Term& term) {
    if (term.kind != Term::input) return;
    auto found = std::find(inputs.begin(), inputs.end(), term.index);
    if (found == inputs.end()) found = inputs.insert(inputs.end(), term.index);
    term.index = static_cast<int>(found - inputs.begin());
  };
  for (Expression::Step& step : dense.steps) {
    const int operands = operand_count(step.function);
    take(step.a);
    if (operands > 1) take(step.b);
    if (operands > 2) take(step.c);
  }
  take(dense.result);
  if (dense.result.kind == Term::input) return;
  definition = cuda_text(dense, static_cast<int>(inputs.size()), name, type.name, type.wraps_in);
}

namespace {

void add_term(std::string& text, const std::string& term, std::int64_t factor) {
  if (factor == 0) return;
  if (!text.empty()) text += " + ";
  text += factor == 1 ? term : fmt::format("{} * static_cast<I>({})", term, factor);
}

}  // namespace

std::string sum_text(const std::string& base, const std::vector<std::int64_t>& strides, std::int64_t constant) {
  std::string text = base;
  for (std::size_t d = 0; d < strides.size(); ++d) add_term(text, fmt::format("p{}", d), strides[d]);
  if (constant != 0) add_term(text, fmt::format("static_cast<I>({})", constant), 1);
  return text.empty() ? "0" : text;
}

std::string sum_text(const std::string& base, const Coordinate& coordinate) {
  std::string text = base;
  for (const Coordinate::Part& part : coordinate.parts) add_term(text, fmt::format("p{}", part.dim), part.factor);
  if (coordinate.offset != 0) add_term(text, fmt::format("static_cast<I>({})", coordinate.offset), 1);
  return text.empty() ? "0" : text;
}

std::string positions_text(const Lowered& space, int first, int last, const std::string& index, int step,
                           const std::string& indent) {
  std::string text, rest = index;
  for (int d = last - 1; d >= first; --d) {
    const std::int64_t size = space.size(d) / (d == last - 1 ? step : 1);
    const std::string here = d == first ? rest : fmt::format("{} % static_cast<U>({})", rest, size);
    text += fmt::format("{}const I p{} = static_cast<I>({}){};\n", indent, d, here,
                        d == last - 1 && step > 1 ? fmt::format(" * {}", step) : "");
    rest = fmt::format("({} / static_cast<U>({}))", rest, size);
  }
  return text;
}

PlaceText place_text(const Access& access, const std::string& kernel,
                     const std::function<std::string(int)>& value_text) {
  PlaceText text{"", sum_text("", access.strides, access.base)};
  for (const Guarded& each : access.guarded) {
    std::string at = "(" + sum_text("", each.coordinate) + ")";
    if (each.value >= 0) at = fmt::format("index_of<I>({}, {})", value_text(each.value), each.size);
    if (each.table >= 0) at = fmt::format("static_cast<I>({}_table{}[{}])", kernel, each.table, at);
    if (const int input = each.coordinate.input; input >= 0) {
      at = fmt::format("static_cast<I>(from_end(x{}[{}], {}))", input, at, each.size);
    }
    if (!text.guard.empty()) text.guard += " && ";
    text.guard += fmt::format("static_cast<U>({}) < static_cast<U>({})", at, each.size);
    text.offset += fmt::format(" + {} * static_cast<I>({})", at, each.stride);
  }
  return text;
}

std::string tables_text(const Lowered& space, const std::string& kernel) {
  std::string text;
  for (std::size_t i = 0; i < space.tables.size(); ++i) {
    text += fmt::format("__device__ const int {}_table{}[] = {{{}}};\n", kernel, i, fmt::join(space.tables[i], ","));
  }
  return text;
}

}  // namespace convoy::generate
