// NVIDIA GPUs: which there are, what they are, and their context on this thread. Without a driver or a device every
// function returns the error that says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "convoy/device.h"
#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

inline constexpr int kMostDevices = 64;  // any more are not seen

// The ordinal in "cuda:N", 0 in "cuda"; nothing for "cpu". Whether there is such a device is not asked.
Result<std::optional<int>> parse_device(std::string_view text);

// PlanRequest::target_sms for a caller who wants so many of the device's multiprocessors, or 0: all, which is one key
// however it is said. The error says how many there are.
Result<int> target_sms(const CudaDevice& device, int wanted);

// At least 1. Errors (unsupported): "no CUDA device: " and why.
Result<int> device_count();

// The driver, started, if it has this device; touches no context.
Result<const DriverApi*> driver_of(int ordinal);

// The facts of a device; the driver counts them from 0.
Result<CudaDevice> describe(int ordinal);

// Makes the device's primary context (the one that PyTorch and the CUDA runtime use too) current on this thread. What
// else of Convoy uses the device does this itself; cheap when it is current already. The context is made on the first
// call and stays for the life of the process.
Result<const DriverApi*> make_current(int ordinal);

// The same for the life of the object: whatever context the calling thread had is current again afterwards.
class DeviceScope {
 public:
  static Result<DeviceScope> enter(int ordinal);
  DeviceScope(DeviceScope&& other) noexcept;
  DeviceScope& operator=(DeviceScope&&) = delete;
  ~DeviceScope();
  const DriverApi& api() const { return *api_; }

 private:
  DeviceScope(const DriverApi* api, CUcontext before, bool changed) : api_(api), before_(before), changed_(changed) {}
  const DriverApi* api_;
  CUcontext before_;
  bool changed_;
};

struct DeviceMemoryInfo {
  std::int64_t free_bytes = 0;  // of the device, to anybody
  std::int64_t total_bytes = 0;
};
Result<DeviceMemoryInfo> memory_info(int ordinal);

// Waits for all work on the device. The error of a kernel that went wrong comes out here at the latest.
Result<void> synchronize(int ordinal);

// Whether `pointer` can serve as `field` of a problem that runs on the device: not null, the device's own or managed
// memory, a multiple of `alignment`. The error (invalid_argument) names the field and says what the pointer is.
Result<void> check_pointer(const void* pointer, int ordinal, std::size_t alignment, std::string_view field);

}  // namespace convoy::cuda
