// Where a Pad's outputs come from, a dim on its own.
#pragma once

#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

// For each dim of the output, for each index along it: the input's, or -1 where there is none.
Result<std::vector<Dims>> padded_indices(const NodeDesc& node, std::span<const Input> inputs, const TensorDesc& output);

}  // namespace convoy::ops
