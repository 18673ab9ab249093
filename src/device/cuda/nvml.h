// NVML's functions, loaded at run time: the driver's version, clocks, temperature, power and energy of a GPU. They only
// observe. A member has the library's name without "nvml": api->DeviceGetTotalEnergyConsumption.
#pragma once

#include <nvml.h>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

// clang-format off
#define CONVOY_NVML_FUNCTIONS(X) \
  X(Init) X(ErrorString) X(SystemGetDriverVersion) X(SystemGetNVMLVersion) X(DeviceGetCount) \
  X(DeviceGetHandleByPciBusId) X(DeviceGetHandleByUUID) X(DeviceGetName) X(DeviceGetClockInfo) \
  X(DeviceGetMaxClockInfo) X(DeviceGetTemperature) X(DeviceGetPowerUsage) X(DeviceGetEnforcedPowerLimit) \
  X(DeviceGetTotalEnergyConsumption) X(DeviceGetMemoryInfo) X(DeviceGetUtilizationRates)
// Null where the driver is older than release 535.
#define CONVOY_NVML_NEWER_FUNCTIONS(X) X(DeviceGetCurrentClocksEventReasons)
// clang-format on

struct NvmlApi {
#define CONVOY_MEMBER(name) decltype(&::nvml##name) name = nullptr;
  CONVOY_NVML_FUNCTIONS(CONVOY_MEMBER)
  CONVOY_NVML_NEWER_FUNCTIONS(CONVOY_MEMBER)
#undef CONVOY_MEMBER
  std::string driver;  // "580.159.04"
};

// The table, made on first use, with NVML initialised. Errors: why there is none (no library, or nvmlInit's reason).
Result<const NvmlApi*> nvml();
const LibraryReport& nvml_report();

const LibraryNames& nvml_names();
LoadedApi<NvmlApi> load_nvml(const std::vector<LibrarySource>& places);

}  // namespace convoy::cuda
