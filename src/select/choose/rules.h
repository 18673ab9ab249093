// Explicit selection: rules that say "this problem, that engine". The language is described at SelectionRule.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

struct RuleFieldInfo;  // a row of the table in rule_fields.h

enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

// A pattern made ready to be matched.
class RulePattern {
 public:
  // Errors say which term is wrong and what it may be.
  static Result<RulePattern> parse(std::string_view text);

  bool matches(const ConvProblem& problem, std::string_view node_name) const;
  bool speaks_of_nodes() const;

 private:
  struct Term {
    const RuleFieldInfo* field;
    Comparison comparison;
    std::string value;
    std::optional<double> number;  // of the value, where it is one
  };
  static Result<Term> parse_term(std::string_view text);

  std::string glob_;  // over the problem string; empty where there are terms
  std::vector<Term> terms_;
};

// The first rule that matches, or null. The error is that of a malformed pattern.
Result<const SelectionRule*> find_rule(std::span<const SelectionRule> rules, const ConvProblem& problem,
                                       std::string_view node_name);

}  // namespace convoy::selection
