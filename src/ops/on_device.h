// Operators, and conversions of layouts and types, on a GPU: what stands there for Operator::plan and convert_layout.
// Nothing here depends on a network, and what a GPU doesn't run is refused, never run elsewhere.
#pragma once

#include <memory>
#include <span>

#include "ops/operator.h"

namespace convoy::ops {

// Whether plan_on_device() would give a plan. Nothing is compiled, so it may be asked for each node of a network and
// again. Error: unsupported says what there is no kernel for.
Result<void> check_on_device(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                             std::span<const TensorDesc> outputs, const PlanRequest& request);

// Operator::plan with a request for a GPU: inputs and outputs as they lie there, in any strides. Input::constant is in
// the processor's memory; executions get a pointer into the device's for such an input, too. An execution only enqueues
// on the context's stream: it allocates nothing and doesn't wait, so that a stream may be captured while it does.
// Errors: those of check_on_device() and of compiling.
Result<std::unique_ptr<OpPlan>> plan_on_device(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                                               std::span<const TensorDesc> outputs, const PlanRequest& request);

// Of it, MatMul and Gemm where cuBLASLt takes them: in f32, f16 or bf16, with sums in f32. Else there are kernels.
Result<std::unique_ptr<OpPlan>> product_on_device(const NodeDesc& node, std::span<const Input> inputs,
                                                  std::span<const TensorDesc> outputs, const PlanRequest& request);

// From one input to one output of the same dims, with other strides, another type, or both.
Result<std::unique_ptr<OpPlan>> conversion_on_device(const TensorDesc& from, const TensorDesc& to,
                                                     const PlanRequest& request);

// Whether what runs there can be compiled: without a compiler there is neither an operator nor a conversion. The error
// says why not.
Result<void> check_compiler_on_device(const PlanRequest& request);

// What a kernel that moves so many bytes is expected to take.
double predict_seconds_on_device(double bytes, const PlanRequest& request);

}  // namespace convoy::ops
