// The machine's energy counter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::selection {

// What the processor packages use, from the kernel's powercap interface (RAPL). All that runs on the packages is
// counted, idle cores included.
class EnergyCounter {
 public:
  static constexpr const char* kSystemFolder = "/sys/class/powercap";

  // `unsupported` where there is no counter or this process may not read it; the message says which and what to do.
  static Result<EnergyCounter> open(const std::string& folder = kSystemFolder);

  // Since it was opened; ask more often than the counter wraps (minutes).
  Result<double> joules();

 private:
  struct Package {
    std::string path;
    std::uint64_t last_microjoules = 0;
    std::uint64_t range_microjoules = 0;  // it wraps to 0 after this value
  };
  std::vector<Package> packages_;
  double microjoules_ = 0;
};

}  // namespace convoy::selection
