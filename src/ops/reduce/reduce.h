// Iteration shared by reductions and by operators along one axis: the elements that are kept, and for each of them
// those that are reduced. Driven by strides, so any plain layout runs in its memory order.
#pragma once

#include "ops/support.h"

namespace convoy::ops {

// `desc` with the dims that `reduced` marks (or, with keep=false, the others) cut down to 1.
TensorDesc cut(TensorDesc desc, const std::vector<bool>& reduced, bool keep);

// `output`, whose reduced dims may have been dropped, with a dim of 1 for each of them.
TensorDesc with_reduced_dims(const TensorDesc& output, const std::vector<bool>& reduced);

struct ReduceLoops {
  BroadcastLoop kept;     // operands: output, input
  BroadcastLoop reduced;  // operand: input, from a kept element on
  ReduceLoops(const TensorDesc& output, const TensorDesc& input, const std::vector<bool>& reduced);
};

// The axes that a reduction reduces: from attribute `axes`, or from input 1 where axes are an input; all where none are
// given (none at all with noop_with_empty_axes).
Result<std::vector<bool>> reduced_axes(const NodeDesc& node, std::span<const Input> inputs, bool axes_are_input);
// Whether what the operator makes of single elements (noop_with_empty_axes) is these elements: not of ReduceL1, L2,
// LogSum and SumSquare, which do to each what they do before and after they add up.
bool keeps_single_elements(const NodeDesc& node);
// The dims left of `dims`.
Dims reduced_dims(const Dims& dims, const std::vector<bool>& reduced, bool keep_dims);

}  // namespace convoy::ops
