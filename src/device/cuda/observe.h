// What NVML sees of a device: clocks, temperature, power, energy. Only observed, never set. What a device doesn't tell
// is unset.
#pragma once

#include <cstdint>
#include <optional>

#include "convoy/result.h"

namespace convoy::cuda {

struct DeviceState {
  std::optional<int> sm_mhz, memory_mhz;
  std::optional<int> most_sm_mhz;  // what the clock can reach
  std::optional<int> celsius;
  std::optional<double> watts;
  std::optional<std::uint64_t> slowed;  // why clocks are lower than they could be: nvmlClocksEventReasons
};
Result<DeviceState> observe(int ordinal);

// Energy that the device used since its driver was loaded, all processes together. The counter moves every 20 to 100
// ms.
Result<double> energy_joules(int ordinal);

}  // namespace convoy::cuda
