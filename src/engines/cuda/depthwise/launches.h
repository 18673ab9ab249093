// The kernels that carry out a design, ready to compile and launch.
#pragma once

#include <string>
#include <vector>

#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"
#include "engines/cuda/depthwise/design.h"

namespace convoy::cuda {

struct DepthwiseLaunch {
  KernelRequest request;
  std::string entry;  // the kernel's name
  Launch shape;
  std::string stage;  // what it does, for people
};

struct DepthwiseLaunches {
  std::vector<DepthwiseLaunch> kernels;  // one, or for most of wgrad two: sums of shares, then their sum
  std::int64_t workspace_bytes = 0;
};

// With `target_sms` (0: all) the kernels do their work with any grid, for keep_within().
DepthwiseLaunches depthwise_launches(const ConvProblem& problem, const DepthwiseShape& shape,
                                     const DepthwiseDesign& design, const CudaDevice& device, int target_sms);

}  // namespace convoy::cuda
