// cpu.int8 and cpu.int8_amx: products of lines, or tiles, of x with panels of weights.
#pragma once

#include <memory>

#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

// `kernel` stays alive.
std::unique_ptr<PackedPlan> make_gemm_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                           const Kernel& kernel);

}  // namespace convoy::cpu::int8
