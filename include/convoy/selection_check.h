// Checking what people write to steer a selection: misspelt names in rules and filters, rules that match nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection_options.h"

namespace convoy {

// parse_rules() that also refuses engines and knobs which none of `engines` has. Give it all_engines(), of every kind
// of device: rules may be meant for another one. Errors name the line and the nearest names.
Result<std::vector<SelectionRule>> parse_rules(std::string_view text, std::span<const Engine* const> engines);

// Whether each entry of the filter's lists of engines and notes matches a name that `engines` declare. Errors
// (invalid_argument) name the entry and the nearest names.
Result<void> check_names(const SelectionFilter& filter, std::span<const Engine* const> engines);

// A convolution as rules see it.
struct ConvolutionNode {
  ConvProblem problem;
  std::string name;  // of its node in a network; empty outside
};

// What became of a rule: how many convolutions it matches, and for how many of them it is the first that does.
struct RuleUse {
  std::int64_t matched = 0;
  std::int64_t decided = 0;
};
// One for each rule, in the same order. The error is that of a malformed pattern.
Result<std::vector<RuleUse>> rule_uses(std::span<const SelectionRule> rules, std::span<const ConvolutionNode> nodes);

}  // namespace convoy
