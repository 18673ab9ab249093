// A problem's tensors on a GPU, as candidates are measured with them.
#pragma once

#include "convoy/engine.h"
#include "device/cuda/memory.h"

namespace convoy::selection {

// Contents as ProblemData's with the same seed, but that large tensors repeat theirs.
struct DeviceData {
  cuda::DeviceMemory x, w, y, z, bias, slopes, scales, x_zero, w_zeros;

  static Result<DeviceData> make(const ConvProblem& problem, std::uint64_t seed, int ordinal, CUstream stream);
  ConvArgs args(void* out) const;
  // What the output holds before an execution, where beta reads it: the tensor that the pass doesn't read.
  const cuda::DeviceMemory& prior(Pass pass) const { return pass == Pass::fprop ? y : pass == Pass::dgrad ? x : w; }
};

// An activation as its producer leaves it: written last, so its end is in the L2 cache where the device has one. Only
// what can be there is written again, from a copy.
class Produced {
 public:
  static Result<Produced> make(const cuda::DeviceMemory& tensor, std::int64_t l2_bytes, int ordinal, CUstream stream);
  Result<void> produce(CUstream stream) const;

 private:
  std::byte* end_ = nullptr;
  cuda::DeviceMemory copy_;
};

}  // namespace convoy::selection
