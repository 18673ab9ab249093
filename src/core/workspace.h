// The check of an execution's workspace that plans have in common.
#pragma once

#include "convoy/engine.h"

namespace convoy {

// Error (invalid_argument): the context has less than the plan needs, or none.
Result<void> check_workspace(const ConvPlan& plan, const ExecContext& context);

}  // namespace convoy
