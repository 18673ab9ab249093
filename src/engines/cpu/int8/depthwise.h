// cpu.int8 where each channel has a filter of its own and channels lie side by side: x is read in place.
#pragma once

#include <memory>

#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

bool is_depthwise(const ConvProblem& problem);

// Precondition: is_depthwise(problem).
std::unique_ptr<PackedPlan> make_depthwise_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                                const Kernel& kernel);

}  // namespace convoy::cpu::int8
