// What no engine has to check and none can forget: the pointers, the workspace and the team of an execution.
#pragma once

#include <memory>

#include "convoy/engine.h"

namespace convoy::selection {

// The same plan, whose execute() first compares its arguments with what `problem` and `request` need: a tensor that is
// read or written and null or less aligned than its description says, a missing bias, z, gate, slopes, scales or given
// zero point, too small or unaligned a workspace, too large a team are errors (invalid_argument) that name the field;
// on a GPU so is memory of anywhere else.
std::unique_ptr<ConvPlan> checked(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem,
                                  const PlanRequest& request);

}  // namespace convoy::selection
