#include "select/measure/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "device/cuda/observe.h"

namespace convoy::selection {
namespace {

Error unavailable(std::string_view what) {
  return {ErrorCode::unsupported, fmt::format("energy can't be measured: {}", what)};
}

Result<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return unavailable(
      fmt::format("{} can't be read ({}); it takes the right to", path, std::strerror(errno != 0 ? errno : EIO)));
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

Result<EnergyCounter> EnergyCounter::open(const std::string& folder) {
  EnergyCounter counter;
  std::vector<std::string> zones;
  std::error_code error;
  for (const auto& zone : std::filesystem::directory_iterator(folder, error)) zones.push_back(zone.path());
  std::sort(zones.begin(), zones.end());
  for (const std::string& zone : zones) {
    // Zones inside a package (cores, memory) are listed beside it; they are part of what it counts.
    if (!read_line(zone + "/name").starts_with("package-")) continue;
    Package package;
    package.path = zone + "/energy_uj";
    errno = 0;
    CONVOY_TRY(package.last_microjoules, read_number(package.path));
    CONVOY_TRY(package.range_microjoules, read_number(zone + "/max_energy_range_uj"));
    counter.packages_.push_back(std::move(package));
  }
  if (counter.packages_.empty()) return unavailable(fmt::format("{} has no counter of a processor package", folder));
  return counter;
}

Result<EnergyCounter> EnergyCounter::open_gpu(int ordinal) {
  const auto now = cuda::energy_joules(ordinal);
  if (!now.ok()) return unavailable(now.error().message);
  EnergyCounter counter;
  counter.gpu_ = ordinal;
  return counter;
}

Result<double> EnergyCounter::joules() {
  if (gpu_) return cuda::energy_joules(*gpu_);
  for (Package& package : packages_) {
    CONVOY_TRY(const std::uint64_t now, read_number(package.path));
    const std::uint64_t wrapped = now < package.last_microjoules ? package.range_microjoules + 1 : 0;
    microjoules_ += static_cast<double>(now + wrapped - package.last_microjoules);
    package.last_microjoules = now;
  }
  return microjoules_ * 1e-6;
}

}  // namespace convoy::selection
