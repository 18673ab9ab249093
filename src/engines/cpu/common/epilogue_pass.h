// The epilogue as a pass of its own over a tensor in memory: what it costs where no convolution fuses it.
//   out = act(alpha*out + bias[channel] + gamma*z)
// with the arithmetic of the fused one (simd/epilogue.h).
#pragma once

#include <optional>

#include "convoy/engine.h"

namespace convoy::cpu {

// What there is no pass for: f32, a packed out, fprop or dgrad, beta=0, AVX2 at least. The reason names field and
// value.
std::optional<Refusal> refuse_epilogue_pass(const ConvProblem& problem, const CpuFeatures& cpu);

// In place on args.out with the problem's alpha and epilogue; args.bias, args.z and args.slopes as for a convolution.
// Precondition: not refused.
void run_epilogue_pass(const ConvProblem& problem, const ConvArgs& args, Isa isa, ThreadTeam& team);

}  // namespace convoy::cpu
