// Where the work of plans goes, in the order of the calls. A processor's queue is a team of threads (thread_team.h):
// the work is done when a call returns. A GPU's is a stream: a call only enqueues.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/device.h"
#include "convoy/result.h"

namespace convoy {

class Queue {
 public:
  virtual ~Queue() = default;
  virtual DeviceKind kind() const = 0;

  // Copies `bytes` between memory of its device and the host's, which must stay as it is until finish(): of a
  // processor all memory is both.
  virtual Result<void> copy_in(void* to, const void* host, std::size_t bytes) = 0;
  virtual Result<void> copy_out(void* host, const void* from, std::size_t bytes) = 0;
  // Within its device's memory.
  virtual Result<void> copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual Result<void> fill(void* to, std::uint8_t value, std::size_t bytes) = 0;

  // Waits until all of it is done. What went wrong on a GPU meanwhile comes out here.
  virtual Result<void> finish() = 0;
};

// A stream of a GPU, which it doesn't own. The GPU's primary context must be the calling thread's current one.
class CudaQueue : public Queue {
 public:
  explicit CudaQueue(void* stream) : stream_(stream) {}  // a CUstream; null: the default stream
  void* stream() const { return stream_; }

  DeviceKind kind() const final;
  Result<void> copy_in(void* to, const void* host, std::size_t bytes) final;
  Result<void> copy_out(void* host, const void* from, std::size_t bytes) final;
  Result<void> copy(void* to, const void* from, std::size_t bytes) final;
  Result<void> fill(void* to, std::uint8_t value, std::size_t bytes) final;
  Result<void> finish() final;

 private:
  void* stream_;
};

}  // namespace convoy
