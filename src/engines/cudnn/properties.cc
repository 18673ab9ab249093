#include "engines/cudnn/properties.h"

#include <nlohmann/json.hpp>

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

Descriptor device_properties(const Api& api, const CudaDevice& device) {
  Descriptor described(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::string json = properties_json(device);
  described
      .set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                 json.c_str())
      .finalize();
  return described;
}

}  // namespace convoy::cudnn
