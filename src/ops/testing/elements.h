// For tests of all element-wise operators.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/elementwise/elementwise.h"

namespace convoy::ops {

// Every operator that a rule describes, by name.
inline std::vector<std::pair<std::string, const ElementRule*>> element_rules() {
  std::vector<std::pair<std::string, const ElementRule*>> rules;
  for (const std::string& name : operator_names()) {
    const auto* const op = dynamic_cast<const ElementwiseOperator*>(find_operator("", name));
    if (op != nullptr) rules.emplace_back(name, &op->rule());
  }
  return rules;
}

// A node of one with the attributes that it must have, of an opset that lets it take all types.
inline NodeDesc node_of_element(const std::string& name) {
  NodeDesc node{.op = name, .name = name, .opset = 28};
  if (name == "BitShift") node.attributes["direction"] = std::string("LEFT");
  return node;
}

}  // namespace convoy::ops
