// The energy counters of processors and GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::selection {

// What the processor packages use, from the kernel's powercap interface (RAPL), or what a GPU uses, from NVML. All that
// runs there is counted, idle parts included.
class EnergyCounter {
 public:
  static constexpr const char* kSystemFolder = "/sys/class/powercap";

  // `unsupported` where there is no counter or this process may not read it; the message says which and what to do.
  static Result<EnergyCounter> open(const std::string& folder = kSystemFolder);

  // Of a GPU. `unsupported` where NVML is missing or doesn't say.
  static Result<EnergyCounter> open_gpu(int ordinal);

  // Since it was opened, or of a GPU since its driver was loaded; ask more often than the counter wraps (minutes).
  Result<double> joules();

 private:
  struct Package {
    std::string path;
    std::uint64_t last_microjoules = 0;
    std::uint64_t range_microjoules = 0;  // it wraps to 0 after this value
  };
  std::vector<Package> packages_;
  std::optional<int> gpu_;
  double microjoules_ = 0;
};

}  // namespace convoy::selection
