// c = alpha * a . b + beta * bias with few terms a sum, f32 or halves: what is written decides, and rows of c are made
// as they lie. Of f32 with few columns, too, several rows are in a vector.
#pragma once

#include "ops/matmul/matmul.h"

namespace convoy::ops {

// Null where that is not what is asked for.
std::unique_ptr<OpPlan> thin_matmul(const NodeDesc& node, const MatMulShape& shape, DataType type,
                                    const ProductBias& bias, const PlanRequest& request);

}  // namespace convoy::ops
