// Operators on tensors in blocks of channels (nchw8c, nchw16c). Where channels fill their blocks, such a tensor is a
// channels-last one of C/b times as many samples, each with b channels: an operator that treats all channels alike
// gives the same either way, so none needs code for blocks.
#pragma once

#include <span>

#include "ops/operator.h"

namespace convoy::ops {

// Whether the operator can run with every activation (of rank 3 or more and not constant; inputs and outputs) in this
// blocked layout, described by blocks_as_samples.
bool accepts_blocks(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                    std::span<const TensorDesc> outputs, Layout layout);

// The same bytes as a channels-last tensor; as it is where it has no blocks. Precondition: channels fill the blocks.
TensorDesc blocks_as_samples(const TensorDesc& desc);

// Operator::plan for inputs and outputs as they lie: on blocks as more samples, where the operator takes them only so.
Result<std::unique_ptr<OpPlan>> plan_as_laid_out(const Operator& op, const NodeDesc& node, std::vector<Input> inputs,
                                                 std::vector<TensorDesc> outputs, const PlanRequest& request);

}  // namespace convoy::ops
