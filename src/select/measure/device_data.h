// A problem's tensors on a device, as candidates are measured with them.
#pragma once

#include <vector>

#include "convoy/engine.h"
#include "device/device.h"

namespace convoy::selection {

// Contents as ProblemData's with the same seed, but that large tensors repeat theirs.
struct DeviceData {
  Buffer x, w, y, z, bias, slopes, scales, x_zero, w_zeros, gate;

  static Result<DeviceData> make(const ConvProblem& problem, std::uint64_t seed, const Device& device, Queue& queue);
  ConvArgs args(void* out) const;
  // What the output holds before an execution, where beta reads it: the tensor that the pass doesn't read.
  const Buffer& prior(Pass pass) const { return pass == Pass::fprop ? y : pass == Pass::dgrad ? x : w; }
};

// An activation as its producer leaves it: written last, so its end is in the L2 cache where the device has one. Only
// what can be there is written again, from a copy.
class Produced {
 public:
  static Result<Produced> make(const Buffer& tensor, std::int64_t l2_bytes, const Device& device, Queue& queue);
  Result<void> produce(Queue& queue) const;

 private:
  std::byte* end_ = nullptr;
  Buffer copy_;
};

// Further tensors of the same contents, one set behind another, so that executions in a row find none of their own in
// the L2 cache.
class Rotation {
 public:
  // `first` and so many more that all together are four times the cache; none where `first` is that large.
  static Result<Rotation> make(const ConvProblem& problem, const ConvArgs& first, std::int64_t l2_bytes,
                               const Device& device, Queue& queue);
  const ConvArgs& next() { return sets_[next_++ % sets_.size()]; }
  std::int64_t bytes_of_one() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  Buffer memory_;
  std::vector<ConvArgs> sets_;
  std::size_t next_ = 0;
};

}  // namespace convoy::selection
