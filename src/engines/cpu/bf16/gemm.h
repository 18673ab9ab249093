// cpu.bf16 and cpu.bf16_amx: products of lines, or tiles, of x with panels of weights.
#pragma once

#include <memory>

#include "engines/cpu/bf16/kernels.h"
#include "engines/cpu/common/lines.h"
#include "engines/cpu/common/packed_plan.h"

namespace convoy::cpu::bf16 {

// Narrow groups are computed as one, of which each filter has weights of zero for the channels of others: tiles are
// filled, and channels that lie side by side are read as such. What is no number in x then reaches the results of all
// of them, as zero times it is none; the plan's notes say so.
struct Work {
  ConvGeometry geometry;    // groups merged
  std::int64_t merged = 1;  // groups of the problem in one
  double cycles = 0;        // for a pixel, all groups
  double again = 0;         // seconds besides (Lines::again_seconds)
};
Work work_of(const ConvProblem& problem, const Kernel& kernel);

// `kernel` stays alive.
std::unique_ptr<PackedPlan> make_gemm_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                           const Kernel& kernel);

}  // namespace convoy::cpu::bf16
