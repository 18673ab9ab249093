#include "engines/cudnn/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/shared_library.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "engines/cudnn/names.h"

namespace convoy::cudnn {

namespace {

// Of the bus of its memory, which a device that is only described does not say: 9.28 wants to know. In bits.
int memory_bus_width(const CudaDevice& device) {
  constexpr std::int64_t kH100Bytes = std::int64_t{96} << 30;  // at most; an H200 has six stacks of memory
  switch (device.architecture / 10) {
    case 8:
      return device.architecture == 80 ? 5120 : 384;
    case 9:
      return device.memory_bytes > kH100Bytes ? 6144 : 5120;
    case 10:
      return 8192;
    case 12:
      return 512;
    default:
      return 4096;
  }
}

}  // namespace

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
      {"memoryBusWidth", memory_bus_width(device)},
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
  if (device.ordinal < 0 || !cuda::driver()) return {};
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

// The property that cuDNN looked for in vain: it names it in its log alone. Empty: that was not it.
std::string missing_property(const Api& api, const std::string& json) {
  struct Listener {
    std::thread::id thread = std::this_thread::get_id();
    std::string words;
  } listener;
  const cudnnCallback_t listen = [](cudnnSeverity_t, void* to, const cudnnDebug_t*, const char* message) {
    auto& listener = *static_cast<Listener*>(to);
    if (listener.thread != std::this_thread::get_id()) return;
    while (*message != '\0') {  // lines that end in a zero each, the last in two
      const std::string_view line = message;
      listener.words.append(line);
      message += line.size() + 1;
    }
  };
  unsigned mask = 0;
  void* data = nullptr;
  cudnnCallback_t before = nullptr;
  if (api.GetCallback(&mask, &data, &before) != CUDNN_STATUS_SUCCESS) return "";
  if (api.SetCallback(CUDNN_SEV_ERROR_EN, &listener, listen) != CUDNN_STATUS_SUCCESS) return "";
  from_json(api, json);
  api.SetCallback(mask, data, before);
  for (const std::string_view mark : {"convert_child_from_json(json_object, \"", "json_object.HasMember(\""}) {
    const std::size_t found = listener.words.find(mark);
    if (found == std::string::npos) continue;
    const std::size_t name = found + mark.size();
    return listener.words.substr(name, listener.words.find('"', name) - name);
  }
  return "";
}

// The part of cuDNN that can't be loaded, in the loader's words; empty: all can be.
std::string missing_part() {
  std::vector<std::string> parts;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(cuda::cudnn_report().file).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("libcudnn_")) parts.push_back(entry.path().string());
  }
  std::sort(parts.begin(), parts.end());
  for (const std::string& part : parts) {
    const auto opened = SharedLibrary::open(part);
    if (!opened.ok())
      return fmt::format("{}: {}", std::filesystem::path(part).filename().string(), opened.error().message);
  }
  return "";
}

}  // namespace

std::string why_not_described(const Api& api, const std::string& json, const Failure& failure) {
  if (failure.status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED) {
    const std::string part = missing_part();
    if (!part.empty()) return fmt::format("cuDNN {} can't load {}; {}", version_text(api.version), part, failure.text);
  }
  const std::string property = missing_property(api, json);
  if (property.empty()) return fmt::format("cuDNN {}: {}", version_text(api.version), failure.text);
  return fmt::format("cuDNN {} wants a property of a device that is described to it, and nobody gave it: {}; {}",
                     version_text(api.version), property, failure.text);
}

DeviceProperties device_properties(const Api& api, const CudaDevice& device) {
  Descriptor own = from_device(api, device);
  if (own.ok()) return {std::move(own), true, ""};
  const std::string json = properties_json(device);
  DeviceProperties described{from_json(api, json), false, ""};
  if (!described.descriptor.ok()) described.why_not = why_not_described(api, json, described.descriptor.failure());
  return described;
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
