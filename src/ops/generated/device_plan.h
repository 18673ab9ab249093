// A generated kernel as a plan for a GPU.
#pragma once

#include "generate/kernel.h"
#include "ops/operator.h"

namespace convoy::ops {

// Compiled for the request's GPU, through the disk cache, and loaded. Its candidate is the kernel's schedule:
// "gen.rows{block=256,rows=8,vector=8}". An execution is one launch, or none where there is nothing to do.
Result<std::unique_ptr<OpPlan>> device_plan(const generate::Kernel& kernel, const PlanRequest& request);

}  // namespace convoy::ops
