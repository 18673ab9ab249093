#include "engines/cudnn/properties.h"

#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"

namespace convoy::cudnn {

std::string properties_json(const CudaDevice& device) {
  constexpr int kReservedShared = 1024;  // bytes a block, from sm_80 on
  constexpr int kBaseShared = 48 * 1024;
  const int blocks_per_sm = device.threads_per_sm > 1536 ? 32 : device.architecture == 86 ? 16 : 24;
  return nlohmann::json{
      {"deviceVer", device.architecture * 10},
      {"deviceName", device.name},
      {"driverVer", device.driver_version},
      {"cudaDeviceId", device.ordinal},
      {"pciDeviceId", 0},
      {"isTccDriver", 0},
      {"supportCoopLaunch", 1},
      {"multiProcessorCount", device.sm_count},
      {"warpSize", 32},
      {"maxGridSize", {2147483647, 65535, 65535}},
      {"maxBlockSize", {1024, 1024, 64}},
      {"maxThreadsPerBlock", 1024},
      {"maxThreadsPerSM", device.threads_per_sm},
      {"maxCtasPerSM", blocks_per_sm},
      {"regsPerBlock", 65536},
      {"maxRegistersPerSM", device.registers_per_sm},
      {"maxSharedMemoryPerBlock", kBaseShared},
      {"maxSharedMemoryPerBlockOptin", device.shared_bytes_per_block},
      {"reservedSharedMemoryPerBlock", kReservedShared},
      {"totalGlobalMem", device.memory_bytes},
      {"l2CacheSize", device.l2_bytes},
      {"smClockRateKHz", 1980000},
      {"memClockRateKHz", 3201000},
  }
      .dump();
}

namespace {

Descriptor from_json(const Api& api, const std::string& json) {
  Descriptor described(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  described
      .set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                 json.c_str())
      .finalize();
  return described;
}

// What cuDNN itself says of the device, if this process sees it.
Descriptor from_device(const Api& api, const CudaDevice& device) {
  if (!cuda::driver()) return {};
  const auto seen = cuda::describe(device.ordinal);
  if (!seen || seen->name != device.name || !cuda::make_current(device.ordinal)) return {};
  Descriptor own(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  own.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::int32_t{device.ordinal}).finalize();
  if (!own.ok()) return {};
  if (log_enabled(LogLevel::debug)) {
    log(LogLevel::debug, "cudnn_device", {{"properties", own.text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)}});
  }
  return own;
}

}  // namespace

DeviceProperties device_properties(const Api& api, const CudaDevice& device) {
  Descriptor own = from_device(api, device);
  if (own.ok()) return {std::move(own), true};
  return {from_json(api, properties_json(device)), false};
}

const DeviceProperties& known_properties(const Api& api, const CudaDevice& device) {
  struct Known {
    CudaDevice device;
    DeviceProperties properties;
  };
  static std::mutex mutex;
  static auto& kept = *new std::deque<Known>;  // never destroyed; a process describes few devices
  const std::lock_guard lock(mutex);
  for (const Known& known : kept) {
    if (!(known.device == device)) continue;
    if (known.properties.own) [[maybe_unused]]
      const auto current = cuda::make_current(device.ordinal);
    return known.properties;
  }
  return kept.emplace_back(Known{device, device_properties(api, device)}).properties;
}

}  // namespace convoy::cudnn
