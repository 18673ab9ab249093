#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "convoy/network.h"
#include "core/text.h"

namespace convoy {
namespace {

constexpr std::string_view kMemory = "memory";

Error bad(std::string_view text, const std::string& what) {
  return {ErrorCode::invalid_argument, fmt::format("objective '{}': {}", text, what)};
}

}  // namespace

Result<NetworkObjective> parse_network_objective(std::string_view text) {
  NetworkObjective result;
  std::optional<double> memory;
  std::string others;
  for (const std::string_view term : split(text, ',')) {
    const std::string_view name = term.substr(0, term.find('='));
    if (name != kMemory) {
      others += fmt::format("{}{}", others.empty() ? "" : ",", term);
      continue;
    }
    memory = 1;
    if (name.size() == term.size()) continue;
    const auto weight = parse_double(term.substr(name.size() + 1));
    if (!weight.ok() || !std::isfinite(*weight) || *weight < 0) {
      return bad(text, fmt::format("the weight '{}' of memory is not a number from 0", term.substr(name.size() + 1)));
    }
    memory = *weight;
  }
  if (memory && others.empty()) {
    if (*memory == 0) return bad(text, "no term has a weight");
    result.least_memory = true;
    return result;
  }
  CONVOY_TRY(result.objective, parse_objective(others));
  if (!memory || *memory == 0) return result;
  if (!(result.objective.time > 0) || result.objective.energy > 0 || result.objective.workspace > 0) {
    return bad(text, "memory is weighed beside time only");
  }
  result.memory = *memory / result.objective.time;
  return result;
}

}  // namespace convoy
