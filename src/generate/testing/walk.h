// Generated kernels on the processor, for tests: compiled by g++ with testing/machine.cuh in place of machine.cuh, a
// block's threads in turn.
#pragma once

#include <memory>
#include <span>

#include "generate/kernel.h"

namespace convoy::generate {

class Walk {
 public:
  // All in one unit; their names differ. The error has the compiler's words.
  static Result<Walk> compile(std::span<const Kernel> kernels);

  // With one pointer for each of kernel.inputs, then for each of kernel.outputs; threads from the first to the last or
  // the other way round. Error: not all threads of a block come to a barrier.
  Result<void> run(const Kernel& kernel, std::span<void* const> pointers, bool backwards = false) const;

 private:
  std::shared_ptr<void> library_;
};

// The same kernels as one source for NVRTC.
std::string text_of(std::span<const Kernel> kernels);

}  // namespace convoy::generate
