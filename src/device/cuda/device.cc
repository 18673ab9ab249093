#include "device/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "core/text.h"
#include "device/cuda/errors.h"
#include "device/cuda/nvml.h"

namespace convoy::cuda {
namespace {

// A driver that was asked once whether it works. Kept: a process that can't start CUDA never will.
struct Started {
  const DriverApi* api = nullptr;
  int devices = 0;
  Error error;  // where there is no device
};

Started start() {
  Started started;
  const auto none = [&](const Error& why) {
    started.error = Error{ErrorCode::unsupported, why.message}.within("no CUDA device");
    return started;
  };
  const Result<const DriverApi*> api = driver();
  if (!api.ok()) return none(api.error());
  if (const CUresult status = (*api)->Init(0); status != CUDA_SUCCESS) return none(driver_error(status, "cuInit", ""));
  int count = 0;
  if (const CUresult status = (*api)->DeviceGetCount(&count); status != CUDA_SUCCESS) {
    return none(driver_error(status, "cuDeviceGetCount", ""));
  }
  if (count == 0) return none({ErrorCode::unsupported, "the driver sees none"});
  started.api = *api;
  started.devices = std::min(count, kMostDevices);
  return started;
}

const Started& started() {
  static const auto* kept = new Started(start());
  return *kept;
}

// The primary contexts, each retained once and never released.
Result<CUcontext> primary_context(const DriverApi& api, int ordinal) {
  struct Contexts {
    std::mutex mutex;
    std::array<CUcontext, kMostDevices> of{};
  };
  static auto* contexts = new Contexts;
  const std::lock_guard lock(contexts->mutex);
  CUcontext& context = contexts->of[static_cast<std::size_t>(ordinal)];
  if (context == nullptr) {
    const std::string purpose = fmt::format("cuda:{}", ordinal);
    CUcontext made = nullptr;
    CONVOY_CHECK(check(api.DevicePrimaryCtxRetain(&made, ordinal), "cuDevicePrimaryCtxRetain", purpose));
    context = made;
  }
  return context;
}

}  // namespace

Result<std::optional<int>> parse_device(std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (text == "cpu") return std::optional<int>();
  if (text == "cuda") return std::optional<int>(0);
  if (text.starts_with(kPrefix)) {
    const auto ordinal = parse_integer(text.substr(kPrefix.size()));
    if (ordinal.ok() && *ordinal >= 0 && *ordinal < kMostDevices) {
      return std::optional<int>(static_cast<int>(*ordinal));
    }
  }
  return Error{ErrorCode::invalid_argument, quoted(text) + " is not a device; cpu, cuda and cuda:N are"};
}

Result<int> target_sms(const CudaDevice& device, int wanted) {
  if (wanted < 0 || wanted > device.sm_count) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: the device has {}", wanted, device.sm_count)};
  }
  return wanted == device.sm_count ? 0 : wanted;
}

Result<int> device_count() {
  if (started().api == nullptr) return started().error;
  return started().devices;
}

Result<const DriverApi*> driver_of(int ordinal) {
  const Started& all = started();
  if (all.api == nullptr) return all.error;
  if (ordinal < 0 || ordinal >= all.devices) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("device cuda:{}: there is {}", ordinal,
                    all.devices == 1 ? std::string("only cuda:0") : fmt::format("cuda:0 to cuda:{}", all.devices - 1))};
  }
  return all.api;
}

Result<CudaDevice> describe(int ordinal) {
  CONVOY_TRY(const DriverApi* api, driver_of(ordinal));
  const std::string purpose = fmt::format("cuda:{}", ordinal);
  const auto attribute = [&](CUdevice_attribute which) -> Result<int> {
    int value = 0;
    CONVOY_CHECK(check(api->DeviceGetAttribute(&value, which, ordinal), "cuDeviceGetAttribute", purpose));
    return value;
  };
  CudaDevice device;
  device.ordinal = ordinal;
  std::array<char, 256> name{};
  CONVOY_CHECK(check(api->DeviceGetName(name.data(), int{name.size()} - 1, ordinal), "cuDeviceGetName", purpose));
  device.name = name.data();
  std::size_t bytes = 0;
  CONVOY_CHECK(check(api->DeviceTotalMem(&bytes, ordinal), "cuDeviceTotalMem", purpose));
  device.memory_bytes = static_cast<std::int64_t>(bytes);
  CONVOY_TRY(const int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CONVOY_TRY(const int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  device.architecture = 10 * major + minor;
  CONVOY_TRY(device.sm_count, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  CONVOY_TRY(device.l2_bytes, attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  CONVOY_TRY(device.shared_bytes_per_block, attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  CONVOY_TRY(device.shared_bytes_per_sm, attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  CONVOY_TRY(device.registers_per_sm, attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
  CONVOY_TRY(device.threads_per_sm, attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
  device.driver_version = api->version;
  if (const Result<const NvmlApi*> known = nvml(); known.ok()) device.driver = (*known)->driver;
  return device;
}

Result<const DriverApi*> make_current(int ordinal) {
  CONVOY_TRY(const DriverApi* api, driver_of(ordinal));
  CONVOY_TRY(const CUcontext context, primary_context(*api, ordinal));
  CUcontext current = nullptr;
  if (api->CtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return api;
  CONVOY_CHECK(check(api->CtxSetCurrent(context), "cuCtxSetCurrent", fmt::format("cuda:{}", ordinal)));
  return api;
}

Result<DeviceScope> DeviceScope::enter(int ordinal) {
  CONVOY_TRY(const DriverApi* api, driver_of(ordinal));
  CUcontext before = nullptr;
  CONVOY_CHECK(check(api->CtxGetCurrent(&before), "cuCtxGetCurrent", ""));
  CONVOY_CHECK(make_current(ordinal));
  CUcontext now = nullptr;
  CONVOY_CHECK(check(api->CtxGetCurrent(&now), "cuCtxGetCurrent", ""));
  return DeviceScope(api, before, now != before);
}

DeviceScope::DeviceScope(DeviceScope&& other) noexcept
    : api_(other.api_), before_(other.before_), changed_(std::exchange(other.changed_, false)) {}

DeviceScope::~DeviceScope() {
  if (changed_) api_->CtxSetCurrent(before_);
}

Result<DeviceMemoryInfo> memory_info(int ordinal) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  std::size_t free = 0, total = 0;
  CONVOY_CHECK(check(scope.api().MemGetInfo(&free, &total), "cuMemGetInfo", fmt::format("cuda:{}", ordinal)));
  return DeviceMemoryInfo{static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

Result<void> synchronize(int ordinal) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  return check(scope.api().CtxSynchronize(), "cuCtxSynchronize", fmt::format("cuda:{}", ordinal));
}

Result<void> check_pointer(const void* pointer, int ordinal, std::size_t alignment, std::string_view field) {
  const auto wrong = [&](std::string_view what) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}={}: {}", field, fmt::ptr(pointer), what)};
  };
  if (pointer == nullptr) return Error{ErrorCode::invalid_argument, fmt::format("{}: the pointer is null", field)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    return wrong(fmt::format("not a multiple of {} bytes", alignment));
  }
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  CUmemorytype type{};
  unsigned managed = 0;
  int owner = -1;
  std::array<CUpointer_attribute, 3> attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values = {&type, &managed, &owner};
  // Memory that CUDA doesn't know gives zeros.
  CONVOY_CHECK(check(scope.api().PointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                      reinterpret_cast<CUdeviceptr>(pointer)),
                     "cuPointerGetAttributes", field));
  if (managed != 0) return {};
  if (type == CU_MEMORYTYPE_HOST) return wrong(fmt::format("pinned host memory, not memory of cuda:{}", ordinal));
  if (type != CU_MEMORYTYPE_DEVICE) return wrong(fmt::format("host memory, not memory of cuda:{}", ordinal));
  if (owner != ordinal) return wrong(fmt::format("memory of cuda:{}, and the problem runs on cuda:{}", owner, ordinal));
  return {};
}

}  // namespace convoy::cuda
