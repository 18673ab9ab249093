// Engines whose plans are kernels that NVRTC compiles.
#pragma once

#include "core/compiles_ahead.h"
#include "engines/cuda/compiler/kernel_plan.h"

namespace convoy::cuda {

class HasKernels : public CompilesAhead {
 public:
  // What plan() compiles and launches.
  virtual PlannedKernels kernels(const ConvProblem& problem, const KnobValues& knobs,
                                 const PlanRequest& request) const = 0;
  std::vector<CompilationJob> compilations(const ConvProblem& problem, const KnobValues& knobs,
                                           const PlanRequest& request) const final;

 protected:
  ~HasKernels() = default;
};

}  // namespace convoy::cuda
