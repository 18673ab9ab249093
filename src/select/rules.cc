#include "select/rules.h"

#include <fmt/format.h>

#include "select/glob.h"

namespace convoy {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<std::vector<SelectionRule>> parse_rules(std::string_view text) {
  constexpr std::string_view arrow = "->";
  std::vector<SelectionRule> rules;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;

    const std::size_t at = line.find(arrow);
    if (at == std::string_view::npos) {
      return Error{
          ErrorCode::invalid_argument,
          fmt::format("rules line {}: '{}' is not of the form PATTERN -> ENGINE{{knob=value}}", line_number, line)};
    }
    const std::string_view pattern = trimmed(line.substr(0, at));
    if (pattern.empty()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("rules line {}: the pattern before '->' is empty", line_number)};
    }
    auto candidate = parse_candidate(trimmed(line.substr(at + arrow.size())));
    if (!candidate) return candidate.error().within(fmt::format("rules line {}", line_number));
    rules.push_back({std::string(pattern), std::move(*candidate)});
  }
  return rules;
}

namespace selection {

bool rule_matches(const SelectionRule& rule, std::string_view problem_string, std::string_view node_name) {
  constexpr std::string_view by_node = "node=";
  const std::string_view pattern = rule.pattern;
  if (pattern.starts_with(by_node)) {
    return !node_name.empty() && glob_matches(pattern.substr(by_node.size()), node_name);
  }
  return glob_matches(pattern, problem_string);
}

const SelectionRule* find_rule(std::span<const SelectionRule> rules, std::string_view problem_string,
                               std::string_view node_name) {
  for (const SelectionRule& rule : rules) {
    if (rule_matches(rule, problem_string, node_name)) return &rule;
  }
  return nullptr;
}

}  // namespace selection
}  // namespace convoy
