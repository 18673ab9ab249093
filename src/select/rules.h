// Explicit selection: rules that say "this problem, that engine".
#pragma once

#include <span>
#include <string_view>

#include "convoy/selection.h"

namespace convoy::selection {

// Whether a rule speaks of this problem. `problem_string` is print(problem).
bool rule_matches(const SelectionRule& rule, std::string_view problem_string, std::string_view node_name);

// The first rule that matches, or null.
const SelectionRule* find_rule(std::span<const SelectionRule> rules, std::string_view problem_string,
                               std::string_view node_name);

}  // namespace convoy::selection
