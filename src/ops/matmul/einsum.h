// What an Einsum says.
#pragma once

#include <span>
#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

// Labels in the order of the output, then those summed over.
struct Equation {
  Dims sizes;
  int outputs = 0;
  std::vector<Dims> strides;  // [operand][label]; 0 where the operand does not have it
};

// Of a node and the operands as they lie. Errors name what the equation and the operands don't agree in.
Result<Equation> equation_of(const NodeDesc& node, std::span<const Input> inputs);

}  // namespace convoy::ops
