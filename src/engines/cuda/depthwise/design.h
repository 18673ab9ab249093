// How a depthwise problem may be computed: a family and its knobs' values. A design is a configuration of the engine's.
#pragma once

#include <vector>

#include "convoy/engine.h"
#include "core/declared_names.h"
#include "engines/cuda/compiler/kernel_plan.h"
#include "engines/cuda/depthwise/family.h"

namespace convoy::cuda {

struct DepthwiseDesign {
  const DepthwiseFamily* family = depthwise_families().front();
  DepthwiseFamily::Values values{};
  friend bool operator==(const DepthwiseDesign&, const DepthwiseDesign&) = default;
};

// A design as an engine's configuration, {columns=7,kernel=planes,rows=4}, and back. The knob `kernel` is a word, and
// says which others there are. design_of() takes what configuration_of() gives.
KnobValues configuration_of(const DepthwiseDesign& design);
DepthwiseDesign design_of(const KnobValues& configuration);
std::vector<DeclaredKnob> depthwise_knobs();
Configurations configurations_of(const std::vector<DepthwiseDesign>& designs);

// The designs that can run, at most twelve, the one that should be fastest first. Those of `target_sms` (0: all) are
// for that many of the device's processors.
std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms);
double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms);

// The kernels that carry out a design, ready to compile and launch. With `target_sms` they do their work with any grid,
// for keep_within().
PlannedKernels depthwise_launches(const ConvProblem& problem, const DepthwiseShape& shape,
                                  const DepthwiseDesign& design, const CudaDevice& device, int target_sms);

}  // namespace convoy::cuda
