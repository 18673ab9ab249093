#include "device/device.h"

#include <fmt/format.h>

#include "convoy/host_tensor.h"
#include "device/cuda/device.h"
#include "device/cuda/gpu.h"

namespace convoy {
namespace {

class Processor final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "cpu"; }
  std::size_t alignment() const override { return 64; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) const override {
    if (bytes == 0) return Buffer();
    std::shared_ptr<std::byte> data = allocate_aligned(bytes);
    if (!data) return Error{ErrorCode::out_of_memory, fmt::format("can't allocate {} bytes for {}", bytes, purpose)};
    return Buffer(std::move(data), bytes);
  }
  Result<std::unique_ptr<Queue>> make_queue(int threads) const override {
    return std::unique_ptr<Queue>(make_cpu_team(threads));
  }
  Result<std::shared_ptr<void>> enter() const override { return std::shared_ptr<void>(); }
  Result<void> check_pointer(const void*, std::string_view) const override { return {}; }
};

}  // namespace

Result<Buffer> Device::allocate_host(std::size_t bytes, std::string_view purpose) const {
  return processor().allocate(bytes, purpose);
}

Result<std::unique_ptr<Recording>> Device::record(Queue&, const std::function<Result<void>()>&) const {
  return std::unique_ptr<Recording>();
}

Result<bool> Device::is_recorded(const Queue&) const { return false; }

Result<std::shared_ptr<void>> Device::join_recording(const std::function<Result<void>()>& enqueue) const {
  CONVOY_CHECK(enqueue());
  return std::shared_ptr<void>();
}

Result<std::unique_ptr<Mark>> Device::make_mark() const { return std::unique_ptr<Mark>(); }

Result<std::int64_t> Device::free_bytes() const {
  return Error{ErrorCode::unsupported, name() + " doesn't say how many bytes are free"};
}

const Device& processor() {
  static const Processor& only = *new Processor;  // never destroyed: plans may run while the process ends
  return only;
}

const Device& device_of(const PlanRequest& request) {
  if (request.device != nullptr) return *request.device;
  return request.cuda ? cuda::gpu(request.cuda->ordinal) : processor();
}

Result<const Device*> find_device(std::string_view name) {
  CONVOY_TRY(const std::optional<int> ordinal, cuda::parse_device(name));
  return ordinal ? &cuda::gpu(*ordinal) : &processor();
}

Result<void*> Scratch::reserve(std::size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  if (bytes > buffer_.bytes()) {
    buffer_ = {};  // first, so that the old and the new are never alive together
    CONVOY_TRY(buffer_, device_->allocate(bytes, "the workspace"));
  }
  return buffer_.data();
}

}  // namespace convoy
