// c = alpha * a . b + beta * bias in f64, for which oneDNN has nothing: b by panels, with vectors.
#pragma once

#include "ops/matmul/matmul.h"

namespace convoy::ops {

std::unique_ptr<OpPlan> panel_matmul(const NodeDesc& node, const MatMulShape& shape, const ProductBias& bias,
                                     const PlanRequest& request);

}  // namespace convoy::ops
