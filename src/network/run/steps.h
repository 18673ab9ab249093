// The kinds of step: convolution, operator, layout conversion.
#pragma once

#include "network/cost/place.h"
#include "network/graph/conv_node.h"
#include "network/run/program.h"

namespace convoy::network {

// Input slots in this order: data, weights (absent: packed into the plan), bias, residual, prelu slopes, scales, x's
// zero point where it is given at execution (on the processor of x's type, elsewhere s32), w's zero points where they
// differ, the gate. All in the step's place.
inline constexpr int kConvStepInputs = 9;

// `bias_type` is the type of the bias input as it arrives; what the engine needs is made from it in the workspace.
std::unique_ptr<Step> make_conv_step(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem, DataType bias_type);
std::unique_ptr<Step> make_op_step(std::unique_ptr<ops::OpPlan> plan);
std::unique_ptr<Step> make_convert_step(TensorDesc from, TensorDesc to);  // on the processor
// So many bytes between the processor and another place, whose step it is. Out of there, and into it where `waits`, it
// ends when they have arrived.
enum class Direction { in, out };
std::unique_ptr<Step> make_copy_step(std::size_t bytes, Direction direction, bool waits);

}  // namespace convoy::network
