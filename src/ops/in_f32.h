// Operators on f16 and bf16 through their plans for f32: what is computed is the same, and only the result is rounded.
#pragma once

#include "ops/operator.h"

namespace convoy::ops {

// `op`'s plan with every f16 and bf16 tensor as f32. Inputs are widened into the workspace at each execution (constants
// once, now), outputs rounded from it. Other tensors stay as they are.
Result<std::unique_ptr<OpPlan>> plan_in_f32(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                                            std::span<const TensorDesc> outputs, const PlanRequest& request);

}  // namespace convoy::ops
