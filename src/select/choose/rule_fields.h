// What the terms of a rule can speak of: one table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::selection {

struct RuleSubject {
  const ConvProblem& problem;
  std::string_view node_name;
};

struct FieldValue {
  std::string text;             // what globs see
  std::vector<double> numbers;  // what comparisons see; empty: the field has no order
};

struct RuleFieldInfo {
  std::string_view name;
  std::string_view meaning;
  bool numeric;
  FieldValue (*value)(const RuleSubject&);
};

std::span<const RuleFieldInfo> rule_field_table();

}  // namespace convoy::selection
