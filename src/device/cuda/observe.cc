#include "device/cuda/observe.h"

#include <fmt/format.h>

#include <array>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"
#include "device/cuda/nvml.h"

namespace convoy::cuda {
namespace {

struct Handle {
  const NvmlApi* api;
  nvmlDevice_t device;
};

// NVML numbers devices its own way: the place on the bus is what both agree on.
Result<Handle> handle_of(int ordinal) {
  CONVOY_TRY(const DriverApi* driver, driver_of(ordinal));
  CONVOY_TRY(const NvmlApi* api, nvml());
  std::array<char, 64> bus{};
  CONVOY_CHECK(check(driver->DeviceGetPCIBusId(bus.data(), int{bus.size()}, ordinal), "cuDeviceGetPCIBusId",
                     fmt::format("cuda:{}", ordinal)));
  Handle handle{api, nullptr};
  const nvmlReturn_t status = api->DeviceGetHandleByPciBusId(bus.data(), &handle.device);
  if (status != NVML_SUCCESS) {
    return Error{ErrorCode::device_failed, fmt::format("nvmlDeviceGetHandleByPciBusId for cuda:{} at {}: {}", ordinal,
                                                       bus.data(), api->ErrorString(status))};
  }
  return handle;
}

}  // namespace

Result<DeviceState> observe(int ordinal) {
  CONVOY_TRY(const Handle handle, handle_of(ordinal));
  const auto& [api, device] = handle;
  DeviceState state;
  unsigned value = 0;
  if (api->DeviceGetClockInfo(device, NVML_CLOCK_SM, &value) == NVML_SUCCESS) state.sm_mhz = static_cast<int>(value);
  if (api->DeviceGetClockInfo(device, NVML_CLOCK_MEM, &value) == NVML_SUCCESS) {
    state.memory_mhz = static_cast<int>(value);
  }
  if (api->DeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &value) == NVML_SUCCESS) {
    state.most_sm_mhz = static_cast<int>(value);
  }
  if (api->DeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS) {
    state.celsius = static_cast<int>(value);
  }
  if (api->DeviceGetPowerUsage(device, &value) == NVML_SUCCESS) state.watts = 1e-3 * value;
  unsigned long long reasons = 0;
  if (api->DeviceGetCurrentClocksEventReasons != nullptr &&
      api->DeviceGetCurrentClocksEventReasons(device, &reasons) == NVML_SUCCESS) {
    state.slowed = reasons;
  }
  return state;
}

Result<double> energy_joules(int ordinal) {
  CONVOY_TRY(const Handle handle, handle_of(ordinal));
  unsigned long long millijoules = 0;
  const nvmlReturn_t status = handle.api->DeviceGetTotalEnergyConsumption(handle.device, &millijoules);
  if (status != NVML_SUCCESS) {
    return Error{ErrorCode::device_failed, fmt::format("nvmlDeviceGetTotalEnergyConsumption for cuda:{}: {}", ordinal,
                                                       handle.api->ErrorString(status))};
  }
  return 1e-3 * static_cast<double>(millijoules);
}

}  // namespace convoy::cuda
