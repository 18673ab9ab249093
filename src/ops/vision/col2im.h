// What a Col2Im says.
#pragma once

#include <span>

#include "ops/operator.h"

namespace convoy::ops {

struct Blocks {
  Dims image, block, stride, dilation, pad, count;  // one per spatial dim; count: block positions
};

// Of a node whose image_shape and block_shape are known. Errors name what doesn't fit.
Result<Blocks> blocks_of(const NodeDesc& node, std::span<const Input> inputs);

}  // namespace convoy::ops
