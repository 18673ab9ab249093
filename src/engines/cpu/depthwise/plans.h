// The two kinds of plan of cpu.depthwise and what they share.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/depthwise/phases.h"

namespace convoy::cpu {

// A depthwise problem from the kernels' side: `source` is the tensor a pass reads (x for fprop, y for dgrad).
struct DepthwiseShape {
  ConvGeometry geometry;
  bool forward;             // fprop
  std::int64_t multiplier;  // K / C
  std::int64_t channels;    // of out
  std::int64_t sources;     // source channels an output channel: the multiplier for dgrad
  ActivationView source;
  ActivationView out;
  std::array<std::vector<DepthwisePhase>, 3> phases;
  std::int64_t out_size[3];
};
DepthwiseShape depthwise_shape(const ConvProblem& problem);

// True where the kernels over channels run it, false where those over planes do.
bool channels_innermost(const ConvProblem& problem);

// The kernels in Real, float or double, for a problem on a processor; null below AVX2.
template <class Real>
const DepthwiseKernels<Real>* depthwise_kernels_for(const ConvProblem& problem, Isa isa);

// Bytes of one thread's buffers for a problem over planes; more than kMaxPlaneBytes is refused.
constexpr std::int64_t kMaxPlaneBytes = 64 << 20;
double plane_bytes(const ConvProblem& problem);

// Bytes of one thread's buffers for a problem of halves; more than kMaxPlaneBytes is refused.
double halves_bytes(const ConvProblem& problem, const PlanRequest& request);

Result<std::unique_ptr<ConvPlan>> make_channels_plan(const ConvProblem& problem, Candidate candidate,
                                                     const PlanRequest& request);
Result<std::unique_ptr<ConvPlan>> make_plane_plan(const ConvProblem& problem, Candidate candidate,
                                                  const PlanRequest& request);

}  // namespace convoy::cpu
