// Operators on tensors in blocks of channels (nchw8c, nchw16c). Where channels fill their blocks, such a tensor is a
// channels-last one of C/b times as many samples, each with b channels: an operator that treats all channels alike
// gives the same either way and needs no code for blocks. One that tells channels apart but works on any strides
// (Concat, Split, Slice, BatchNormalization) accepts blocks itself and sees them as one dim more.
#pragma once

#include <span>

#include "ops/operator_row.h"

namespace convoy::ops {

// Whether the operator runs with every activation (of rank 3 or more and not constant; inputs and outputs) in this
// layout. Outputs that are unknown (none) are no blocks as samples.
bool works_in(const OperatorRow& row, const NodeDesc& node, std::span<const Input> inputs,
              std::span<const TensorDesc> outputs, Layout layout);

// The same bytes as a channels-last tensor; as it is where it has no blocks. Precondition: channels fill the blocks.
TensorDesc blocks_as_samples(const TensorDesc& desc);

// Operator::plan for inputs and outputs as they lie: on blocks as more samples, where the operator takes them only so.
Result<std::unique_ptr<OpPlan>> plan_as_laid_out(const OperatorRow& row, const NodeDesc& node,
                                                 std::vector<Input> inputs, std::vector<TensorDesc> outputs,
                                                 const PlanRequest& request);

// Whether it is of rank 3 to 5 and its channels (at least one) fill blocks of `block`.
bool fills_blocks(const TensorDesc& desc, std::int64_t block);

// The same elements in the order N, C / block, spatial, channel of a block: strides of a tensor without blocks, of one
// more dim. `desc` may be in such blocks, or have none. Precondition: fills_blocks.
TensorDesc blocks_as_dim(const TensorDesc& desc, std::int64_t block);

}  // namespace convoy::ops
