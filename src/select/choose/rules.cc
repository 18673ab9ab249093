#include "select/choose/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/errors.h"
#include "convoy/selection_check.h"
#include "core/nearest.h"
#include "select/choose/glob.h"
#include "select/choose/names.h"
#include "select/choose/rule_fields.h"

namespace convoy {
namespace selection {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kOperatorCharacters = "=!<>";

// Longer ones first, since "<" begins "<=".
constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{
    {"!=", Comparison::not_equal},
    {"<=", Comparison::less_equal},
    {">=", Comparison::greater_equal},
    {"=", Comparison::equal},
    {"<", Comparison::less},
    {">", Comparison::greater},
}};

// A pattern of terms begins with NAME and an operator; a glob with '*', or with "fprop:" and the like.
bool is_terms(std::string_view pattern) {
  const std::size_t end = pattern.find_first_not_of(kNameCharacters);
  return end != 0 && end != std::string_view::npos && kOperatorCharacters.find(pattern[end]) != std::string_view::npos;
}

bool any_alternative_matches(std::string_view alternatives, std::string_view text) {
  for (;;) {
    const std::size_t bar = alternatives.find('|');
    if (glob_matches(alternatives.substr(0, bar), text)) return true;
    if (bar == std::string_view::npos) return false;
    alternatives = alternatives.substr(bar + 1);
  }
}

bool holds(Comparison comparison, double a, double b) {
  switch (comparison) {
    case Comparison::less:
      return a < b;
    case Comparison::less_equal:
      return a <= b;
    case Comparison::greater:
      return a > b;
    case Comparison::greater_equal:
      return a >= b;
    case Comparison::equal:
    case Comparison::not_equal:
      break;
  }
  return a == b;
}

}  // namespace

Result<RulePattern> RulePattern::parse(std::string_view text) {
  RulePattern pattern;
  text = trimmed(text);
  if (text.empty()) return invalid("the pattern is empty");
  if (!is_terms(text)) {
    if (text.find_first_of(" \t") != std::string_view::npos) {
      return invalid(fmt::format("'{}' is neither a glob nor terms FIELD=VALUE", text));
    }
    pattern.glob_ = text;
    return pattern;
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    CONVOY_TRY(Term term, parse_term(text.substr(0, end)));
    pattern.terms_.push_back(std::move(term));
    text = trimmed(text.substr(end));
  }
  return pattern;
}

Result<RulePattern::Term> RulePattern::parse_term(std::string_view text) {
  const std::size_t name_end = std::min(text.find_first_not_of(kNameCharacters), text.size());
  const std::string_view name = text.substr(0, name_end), rest = text.substr(name_end);
  const auto fields = rule_field_table();
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
  if (field == fields.end()) {
    std::vector<std::string> names;
    for (const RuleFieldInfo& each : fields) names.emplace_back(each.name);
    return invalid(fmt::format("'{}': '{}' is not a field{} (convoy list rule-fields shows all)", text, name,
                               did_you_mean(name, names)));
  }
  const auto comparison = std::find_if(kComparisons.begin(), kComparisons.end(),
                                       [&](const auto& candidate) { return rest.starts_with(candidate.first); });
  if (comparison == kComparisons.end()) {
    return invalid(fmt::format("'{}' is not of the form FIELD=VALUE (or !=, <, <=, >, >=)", text));
  }
  Term term{&*field, comparison->second, std::string(rest.substr(comparison->first.size())), std::nullopt};
  if (term.value.empty()) return invalid(fmt::format("'{}': there is no value after '{}'", text, comparison->first));
  double number = 0;
  const char* const end = term.value.data() + term.value.size();
  const auto parsed = std::from_chars(term.value.data(), end, number);
  if (parsed.ec == std::errc{} && parsed.ptr == end) term.number = number;
  const bool ordered = term.comparison != Comparison::equal && term.comparison != Comparison::not_equal;
  if (ordered && !field->numeric) {
    return invalid(fmt::format("'{}': {} has no order; '=' and '!=' compare it with a glob", text, name));
  }
  if (ordered && !term.number) return invalid(fmt::format("'{}': '{}' is not a number", text, term.value));
  return term;
}

bool RulePattern::matches(const ConvProblem& problem, std::string_view node_name) const {
  if (!glob_.empty()) return glob_matches(glob_, print(problem));
  if (node_name.empty() && speaks_of_nodes()) return false;  // even node!=GLOB: there is no node
  const RuleSubject subject{problem, node_name};
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const FieldValue value = term.field->value(subject);
    const auto each_holds = [&](double number) { return holds(term.comparison, number, *term.number); };
    const bool numbers_hold =
        term.number && !value.numbers.empty() && std::all_of(value.numbers.begin(), value.numbers.end(), each_holds);
    switch (term.comparison) {
      case Comparison::equal:
        return numbers_hold || any_alternative_matches(term.value, value.text);
      case Comparison::not_equal:
        return !numbers_hold && !any_alternative_matches(term.value, value.text);
      default:
        return numbers_hold;
    }
  });
}

bool RulePattern::speaks_of_nodes() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const Term& term) { return term.field->name == "node"; });
}

Result<const SelectionRule*> find_rule(std::span<const SelectionRule> rules, const ConvProblem& problem,
                                       std::string_view node_name) {
  for (const SelectionRule& rule : rules) {
    auto pattern = RulePattern::parse(rule.pattern);
    if (!pattern.ok()) return pattern.error().within(fmt::format("rule '{}'", rule.pattern));
    if (pattern->matches(problem, node_name)) return &rule;
  }
  return static_cast<const SelectionRule*>(nullptr);
}

}  // namespace selection

Result<std::vector<SelectionRule>> parse_rules(std::string_view text) { return parse_rules(text, {}); }

Result<std::vector<SelectionRule>> parse_rules(std::string_view text, std::span<const Engine* const> engines) {
  constexpr std::string_view arrow = "->";
  std::vector<SelectionRule> rules;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    line = selection::trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;

    const std::string where = fmt::format("rules line {}", line_number);
    const std::size_t at = line.find(arrow);
    if (at == std::string_view::npos) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: '{}' is not of the form PATTERN -> ENGINE{{knob=value}}", where, line)};
    }
    const std::string_view pattern = selection::trimmed(line.substr(0, at));
    if (const auto parsed = selection::RulePattern::parse(pattern); !parsed.ok()) return parsed.error().within(where);
    auto candidate = parse_candidate(selection::trimmed(line.substr(at + arrow.size())));
    if (!candidate) return candidate.error().within(where);
    if (!engines.empty()) {
      if (auto known = selection::check_candidate(*candidate, engines); !known.ok()) return known.error().within(where);
    }
    rules.push_back({std::string(pattern), std::move(*candidate)});
  }
  return rules;
}

Result<std::vector<RuleUse>> rule_uses(std::span<const SelectionRule> rules, std::span<const ConvolutionNode> nodes) {
  std::vector<RuleUse> uses(rules.size());
  std::vector<bool> decided(nodes.size());
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const auto pattern = selection::RulePattern::parse(rules[r].pattern);
    if (!pattern.ok()) return pattern.error().within(fmt::format("rule '{}'", rules[r].pattern));
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (!pattern->matches(nodes[n].problem, nodes[n].name)) continue;
      ++uses[r].matched;
      uses[r].decided += !decided[n];
      decided[n] = true;
    }
  }
  return uses;
}

}  // namespace convoy
