// Kernels of src/engines/cuda/kernels on the processor, for tests: compiled by g++ with testing/host/ptx.cuh in place
// of ptx.cuh. Those whose PTX that has; the kernel's name stands behind WORK_KERNEL's bounds.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "device/cuda/module.h"
#include "engines/cuda/compiler/kernel_plan.h"
#include "engines/testing/conv_data.h"

namespace convoy::cuda::testing {

class HostKernel {
 public:
  // The error has the compiler's words.
  static Result<HostKernel> compile(const ProgramSource& source, const std::string& name);

  // With pointers to the parameters, as launch(). False: not all threads of a block come to a barrier.
  bool run(std::span<void* const> arguments, const Launch& shape, bool backwards) const;

 private:
  std::shared_ptr<void> library_;
  bool (*call_)(void* const* arguments, unsigned grid, unsigned block, bool backwards) = nullptr;
};

// A kernel with a problem's data, which `run` runs with arguments that have out, too: threads from the first to the
// last, then the other way round. "", or what is wrong.
std::string walk(const ConvProblem& problem, const convoy::testing::ConvData& data,
                 const std::function<bool(const ConvArgs& args, bool backwards)>& run);

// The kernels, as their plan's execution launches them. Threads go from the first to the last, then the other way
// round.
// "", or what is wrong. `text`: of the kernel, in place of the source that is embedded.
std::string walk(PlannedKernels& planned, const ConvProblem& problem, const convoy::testing::ConvData& data,
                 std::string_view text = {});

}  // namespace convoy::cuda::testing
