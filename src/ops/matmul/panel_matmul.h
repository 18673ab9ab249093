// c = alpha * a . b + beta * bias in f32 and f64, b by panels, with vectors: where oneDNN has nothing, or is
// slower.
#pragma once

#include "ops/matmul/matmul.h"

namespace convoy::ops {

// `type`: f32 or f64.
std::unique_ptr<OpPlan> panel_matmul(const NodeDesc& node, MatMulShape shape, DataType type, ProductBias bias,
                                     const PlanRequest& request);

}  // namespace convoy::ops
