#include "convoy/queue.h"

#include "device/cuda/memory.h"
#include "device/cuda/stream.h"

namespace convoy {
namespace {

CUstream stream_of(const CudaQueue& queue) { return static_cast<CUstream>(queue.stream()); }

}  // namespace

DeviceKind CudaQueue::kind() const { return DeviceKind::cuda; }
Result<void> CudaQueue::copy_in(void* to, const void* host, std::size_t bytes) {
  return cuda::copy_to_device(to, host, bytes, stream_of(*this));
}
Result<void> CudaQueue::copy_out(void* host, const void* from, std::size_t bytes) {
  return cuda::copy_to_host(host, from, bytes, stream_of(*this));
}
Result<void> CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
  return cuda::copy_on_device(to, from, bytes, stream_of(*this));
}
Result<void> CudaQueue::fill(void* to, std::uint8_t value, std::size_t bytes) {
  return cuda::fill_bytes(to, value, bytes, stream_of(*this));
}
Result<void> CudaQueue::finish() { return cuda::synchronize(stream_of(*this), "a queue of the GPU"); }

}  // namespace convoy
