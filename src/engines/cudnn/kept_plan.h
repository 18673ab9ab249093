// Plans of engines that cuDNN compiles at run time, on disk beside compiled kernels (device/cuda/code_cache.h):
// compiling takes a second or more, the plan's JSON has the code.
#pragma once

#include <optional>

#include "convoy/engine.h"
#include "device/cuda/code_cache.h"
#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// What a plan is for. `own`: the device itself was asked for its properties, else they are as described.
struct PlanUse {
  const ConvProblem& problem;
  const CudaDevice& device;
  bool own = false;
  int target_sms = 0;
  std::int64_t engine = 0;
  const KnobValues& knobs;
};
// Another one for each version of cuDNN and of the driver, too.
cuda::CodeKey plan_key(const Api& api, const PlanUse& use);

// What was kept, finalised for the device of these properties. Nothing: there is none, or cuDNN doesn't take it.
std::optional<Descriptor> find_plan(const cuda::CodeCache& cache, const cuda::CodeKey& key, const Api& api,
                                    const Descriptor& properties);
void keep_plan(const cuda::CodeCache& cache, const cuda::CodeKey& key, const Descriptor& plan);

}  // namespace convoy::cudnn
