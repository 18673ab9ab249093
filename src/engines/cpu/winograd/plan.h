// Plans of cpu.winograd.
#pragma once

#include <memory>

#include "convoy/engine.h"
#include "engines/cpu/common/geometry.h"
#include "engines/cpu/winograd/blocking.h"
#include "engines/cpu/winograd/winograd_kernels.h"

namespace convoy::cpu {

// A problem from the kernels' side: `source` is the tensor a pass reads (x for fprop, y for dgrad).
struct WinogradShape {
  ConvGeometry geometry;
  bool forward;
  bool two_d;  // else the tile is one row and the filter 1x3
  int m;
  std::int64_t channels;      // read, of a group
  std::int64_t out_channels;  // of a group
  ActivationView source;
  ActivationView out;
  WinogradTiles tiles;
  WinogradSize size;
};

const WinogradKernels* winograd_kernels_for(const ConvProblem& problem, Isa isa);
WinogradShape winograd_shape(const ConvProblem& problem, int m, const PlanRequest& request);

Result<std::unique_ptr<ConvPlan>> make_winograd_plan(const ConvProblem& problem, Candidate candidate,
                                                     const PlanRequest& request, int m);

}  // namespace convoy::cpu
