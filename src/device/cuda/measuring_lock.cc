#include "device/cuda/measuring_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>

#include "device/cuda/device.h"

namespace convoy::cuda {
namespace {

// Named by the place on the bus: ordinals are a process's own. Empty where the driver doesn't say.
std::string lock_path(int ordinal) {
  const auto driver = driver_of(ordinal);
  std::array<char, 64> bus{};
  if (!driver.ok() || (*driver)->DeviceGetPCIBusId(bus.data(), int{bus.size()}, ordinal) != 0) return {};
  std::error_code failed;
  const auto folder = std::filesystem::temp_directory_path(failed);
  return failed ? std::string() : (folder / ("convoy-gpu-" + std::string(bus.data()) + ".lock")).string();
}

}  // namespace

MeasuringLock::MeasuringLock(int ordinal) {
  const std::string path = lock_path(ordinal);
  if (path.empty()) return;
  // A lock needs no more than reading, which other people's files allow; creating over one that is there they don't.
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  constexpr mode_t readable = 0644;
  file_ = ::open(path.c_str(), flags);
  if (file_ < 0) file_ = ::open(path.c_str(), flags | O_CREAT, readable);
  if (file_ < 0) return;
  while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

MeasuringLock::~MeasuringLock() {
  if (file_ >= 0) ::close(file_);  // which gives the lock back
}

}  // namespace convoy::cuda
