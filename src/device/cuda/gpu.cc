#include "device/cuda/gpu.h"

#include <fmt/format.h>

#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"

namespace convoy::cuda {
namespace {

class OwnStream final : public CudaQueue {
 public:
  explicit OwnStream(Stream stream) : CudaQueue(stream.get()), stream_(std::move(stream)) {}

 private:
  Stream stream_;
};

class Gpu final : public Device {
 public:
  explicit Gpu(int ordinal) : ordinal_(ordinal) {}
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return fmt::format("cuda:{}", ordinal_); }
  std::size_t alignment() const override { return 256; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) const override {
    CONVOY_TRY(DeviceMemory memory, DeviceMemory::allocate(ordinal_, bytes, purpose));
    const auto owner = std::make_shared<DeviceMemory>(std::move(memory));
    return Buffer(std::shared_ptr<void>(owner, owner->data()), bytes);
  }
  Result<std::unique_ptr<Queue>> make_queue(int) const override {
    CONVOY_TRY(Stream stream, Stream::create(ordinal_));
    return std::unique_ptr<Queue>(std::make_unique<OwnStream>(std::move(stream)));
  }
  Result<std::shared_ptr<void>> enter() const override {
    CONVOY_TRY(DeviceScope scope, DeviceScope::enter(ordinal_));
    return std::shared_ptr<void>(std::make_shared<DeviceScope>(std::move(scope)));
  }
  Result<void> check_pointer(const void* pointer, std::string_view field) const override {
    return cuda::check_pointer(pointer, ordinal_, 1, field);
  }

 private:
  int ordinal_;
};

}  // namespace

const Device& gpu(int ordinal) {
  static const auto& all = *[] {  // never destroyed: plans may run while the process ends
    auto* const gpus = new std::vector<Gpu>;
    for (int i = 0; i < kMostDevices; ++i) gpus->emplace_back(i);
    return gpus;
  }();
  return all.at(static_cast<std::size_t>(ordinal));
}

}  // namespace convoy::cuda
