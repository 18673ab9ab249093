// A GPU's memory, streams and copies, as ONNX Runtime asks for them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "ort/calls.h"

namespace convoy::ort {

inline constexpr std::uint32_t kNvidia = 0x10de;  // as a vendor on the PCI bus

class Gpu {
 public:
  Gpu(const Api& api, const EpApi& ep_api, int ordinal, std::string bus, OrtMemoryInfo* memory);
  ~Gpu();
  Gpu(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  std::string name() const { return "cuda:" + std::to_string(ordinal_); }
  const std::string& bus() const { return bus_; }  // its address on the PCI bus, "0000:1b:00.0"
  const OrtMemoryInfo* memory() const { return memory_; }

  // Memory of a stream goes back to it in its order, and waits for nothing. Other memory is there at once, and belongs
  // to no work that is still to be done when it is freed.
  OrtAllocator* create_allocator() const;
  static void release(OrtAllocator* allocator);
  Result<OrtSyncStreamImpl*> create_stream() const;
  // One of those that is there still; null: it is none.
  std::shared_ptr<const cuda::Stream> created(CUstream handle) const;
  // ONNX Runtime's operators between this GPU's memory and the processor's, of the provider `name`. It is the caller's.
  Result<OrtKernelRegistry*> copy_operators(const KernelApi& kernels, const char* name) const;

  // Tensors, either of which may be in the processor's memory. Null `stream`: it is waited for.
  Result<void> copy(const OrtValue* from, OrtValue* to, CUstream stream) const;
  // Bytes on `stream`; those of the processor's memory may be freed when this returns.
  Result<void> copy_to_host(void* host, const void* device, std::size_t bytes, CUstream stream) const;
  Result<void> copy_from_host(void* device, const void* host, std::size_t bytes, CUstream stream) const;

  const Api& api() const { return api_; }
  const EpApi& ep_api() const { return ep_api_; }
  // For what is on no stream of ONNX Runtime's.
  Result<std::shared_ptr<const cuda::Stream>> own_stream() const;

 private:
  const Api& api_;
  const EpApi& ep_api_;
  const int ordinal_;
  const std::string bus_;
  OrtMemoryInfo* const memory_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const cuda::Stream> own_stream_;
  mutable std::vector<std::weak_ptr<const cuda::Stream>> streams_;
};

using Gpus = std::vector<std::unique_ptr<const Gpu>>;

// Those that the driver has, in its order. Error: unsupported says why there are none.
Result<Gpus> all_gpus(const Api& api, const EpApi& ep_api);

// Copies of tensors between them and the processor. It may outlive neither `gpus` nor their interface.
OrtDataTransferImpl* create_transfer(const Gpus& gpus);

}  // namespace convoy::ort
