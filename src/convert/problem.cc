#include "convert/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "convert/convert.h"
#include "core/text.h"

namespace convoy {
namespace {

constexpr std::string_view kPrefix = "convert";

}  // namespace

bool is_conversion_string(std::string_view text) {
  text = trim(text);
  return text.starts_with(kPrefix) && text.substr(kPrefix.size()).starts_with(':');
}

std::string print(const ConversionProblem& problem) {
  return fmt::format("{}:x={}:y={}", kPrefix, print(problem.x), print(problem.y));
}

Result<ConversionProblem> parse_conversion(std::string_view text) {
  const std::vector<std::string_view> pieces = split(trim(text), ':');
  if (pieces[0] != kPrefix) return invalid(quoted(pieces[0]) + " is not convert");
  std::optional<TensorDesc> x, y;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::size_t equals = pieces[i].find('=');
    const std::string_view name = pieces[i].substr(0, equals);
    if (equals == std::string_view::npos) return invalid("field " + quoted(pieces[i]) + " has no '='");
    if (name != "x" && name != "y") return invalid("field " + quoted(name) + " is not one of x, y");
    std::optional<TensorDesc>& field = name == "x" ? x : y;
    if (field) return invalid("field " + quoted(name) + " is given twice");
    auto tensor = parse_tensor(pieces[i].substr(equals + 1));
    if (!tensor.ok()) return tensor.error().within(std::string(name));
    CONVOY_CHECK(validate(*tensor, name));
    field = std::move(*tensor);
  }
  if (!x) return invalid("field 'x' is missing");
  if (!y) return invalid("field 'y' is missing");
  if (x->dims != y->dims) {
    return invalid(fmt::format("y.dims={} differ from x.dims={}", to_string(y->dims), to_string(x->dims)));
  }
  return ConversionProblem{std::move(*x), std::move(*y)};
}

double bytes_moved(const ConversionProblem& problem) {
  return static_cast<double>(problem.x.bytes()) + static_cast<double>(problem.y.bytes());
}

}  // namespace convoy
