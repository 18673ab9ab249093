#pragma once

#include <memory>

#include "convoy/engine.h"

namespace convoy::cpu {

Result<std::unique_ptr<ConvPlan>> make_wgrad_plan(const ConvProblem& problem, Candidate candidate,
                                                  const PlanRequest& request);

}  // namespace convoy::cpu
