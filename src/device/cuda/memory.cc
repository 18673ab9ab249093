#include "device/cuda/memory.h"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"

namespace convoy::cuda {
namespace {

Error allocation_error(CUresult status, std::string_view call, int ordinal, std::size_t bytes,
                       std::string_view purpose) {
  const std::string of = purpose.empty() ? "" : fmt::format(" for {}", purpose);
  if (status != CUDA_ERROR_OUT_OF_MEMORY) {
    return driver_error(status, call, fmt::format("{} bytes on cuda:{}{}", bytes, ordinal, of));
  }
  std::string message = fmt::format("cuda:{}: {} needed{}", ordinal, memory_text(static_cast<std::int64_t>(bytes)), of);
  if (const auto memory = memory_info(ordinal); memory.ok()) {
    message += fmt::format(", {} of {} are free", memory_text(memory->free_bytes), memory_text(memory->total_bytes));
  }
  return {ErrorCode::out_of_memory, std::move(message)};
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

std::string memory_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

Result<DeviceMemory> DeviceMemory::allocate(int ordinal, std::size_t bytes, std::string_view purpose) {
  DeviceMemory memory;
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  if (bytes == 0) return memory;
  CUdeviceptr data = 0;
  if (const CUresult status = scope.api().MemAlloc(&data, bytes); status != CUDA_SUCCESS) {
    return allocation_error(status, "cuMemAlloc", ordinal, bytes, purpose);
  }
  memory.data_ = reinterpret_cast<void*>(data);
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) (*driver())->MemFree(address(data_));
}

Result<PinnedMemory> PinnedMemory::allocate(int ordinal, std::size_t bytes, std::string_view purpose) {
  PinnedMemory memory;
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  if (bytes == 0) return memory;
  if (const CUresult status = scope.api().MemAllocHost(&memory.data_, bytes); status != CUDA_SUCCESS) {
    memory.data_ = nullptr;
    return driver_error(status, "cuMemAllocHost", fmt::format("{} bytes of host memory for {}", bytes, purpose));
  }
  memory.bytes_ = bytes;
  return memory;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) (*driver())->MemFreeHost(data_);
}

StreamMemory::StreamMemory(StreamMemory&& other) noexcept
    : ordinal_(other.ordinal_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      stream_(other.stream_) {}

StreamMemory& StreamMemory::operator=(StreamMemory&& other) noexcept {
  std::swap(ordinal_, other.ordinal_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(stream_, other.stream_);
  return *this;
}

StreamMemory::~StreamMemory() {
  if (data_ == nullptr) return;
  const auto scope = DeviceScope::enter(ordinal_);  // the default stream is the current context's
  if (scope.ok()) scope->api().MemFreeAsync(address(data_), stream_);
}

Result<WorkspacePool> WorkspacePool::create(int ordinal) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  const DriverApi& api = scope.api();
  const std::string purpose = fmt::format("the workspace pool of cuda:{}", ordinal);
  int supported = 0;
  CONVOY_CHECK(check(api.DeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, ordinal),
                     "cuDeviceGetAttribute", purpose));
  if (supported == 0) return Error{ErrorCode::unsupported, fmt::format("cuda:{} has no memory pools", ordinal)};
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  CUmemoryPool pool = nullptr;
  CONVOY_CHECK(check(api.MemPoolCreate(&pool, &properties), "cuMemPoolCreate", purpose));
  WorkspacePool made(&api, pool, ordinal);
  std::uint64_t keep_all = ~std::uint64_t{0};
  CONVOY_CHECK(check(api.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all),
                     "cuMemPoolSetAttribute", purpose));
  return made;
}

WorkspacePool::WorkspacePool(WorkspacePool&& other) noexcept
    : api_(other.api_), pool_(std::exchange(other.pool_, nullptr)), ordinal_(other.ordinal_) {}

WorkspacePool& WorkspacePool::operator=(WorkspacePool&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(pool_, other.pool_);
  std::swap(ordinal_, other.ordinal_);
  return *this;
}

WorkspacePool::~WorkspacePool() {
  if (pool_ != nullptr) api_->MemPoolDestroy(pool_);
}

Result<StreamMemory> WorkspacePool::allocate(std::size_t bytes, CUstream stream, std::string_view purpose) const {
  if (bytes == 0) return StreamMemory(ordinal_, nullptr, 0, stream);
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal_));
  CUdeviceptr data = 0;
  CUresult status = api_->MemAllocFromPoolAsync(&data, bytes, pool_, stream);
  if (status == CUDA_ERROR_OUT_OF_MEMORY && trim().ok()) {
    status = api_->MemAllocFromPoolAsync(&data, bytes, pool_, stream);
  }
  if (status != CUDA_SUCCESS) return allocation_error(status, "cuMemAllocFromPoolAsync", ordinal_, bytes, purpose);
  return StreamMemory(ordinal_, reinterpret_cast<void*>(data), bytes, stream);
}

Result<void> WorkspacePool::trim(std::size_t keep) const {
  return check(api_->MemPoolTrimTo(pool_, keep), "cuMemPoolTrimTo", "the workspace pool");
}

Result<std::int64_t> WorkspacePool::attribute(CUmemPool_attribute which) const {
  std::uint64_t value = 0;
  CONVOY_CHECK(check(api_->MemPoolGetAttribute(pool_, which, &value), "cuMemPoolGetAttribute", "the workspace pool"));
  return static_cast<std::int64_t>(value);
}

Result<std::int64_t> WorkspacePool::reserved_bytes() const { return attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
Result<std::int64_t> WorkspacePool::used_bytes() const { return attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }

Result<const WorkspacePool*> workspace_pool(int ordinal) {
  CONVOY_TRY(const int devices, device_count());
  struct Pools {
    std::mutex mutex;
    std::array<std::optional<WorkspacePool>, kMostDevices> of;
  };
  static auto* pools = new Pools;
  const std::lock_guard lock(pools->mutex);
  if (ordinal < 0 || ordinal >= devices) return make_current(ordinal).error();
  std::optional<WorkspacePool>& pool = pools->of[static_cast<std::size_t>(ordinal)];
  if (!pool) {
    CONVOY_TRY(WorkspacePool made, WorkspacePool::create(ordinal));
    pool.emplace(std::move(made));
  }
  return &*pool;
}

Result<void> copy_to_device(void* device, const void* host, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return {};
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->MemcpyHtoDAsync(address(device), host, bytes, stream), "cuMemcpyHtoDAsync",
               fmt::format("{} bytes", bytes));
}

Result<void> copy_to_host(void* host, const void* device, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return {};
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->MemcpyDtoHAsync(host, address(device), bytes, stream), "cuMemcpyDtoHAsync",
               fmt::format("{} bytes", bytes));
}

Result<void> copy_on_device(void* to, const void* from, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return {};
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->MemcpyDtoDAsync(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync",
               fmt::format("{} bytes", bytes));
}

Result<void> fill_bytes(void* device, std::uint8_t value, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return {};
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->MemsetD8Async(address(device), value, bytes, stream), "cuMemsetD8Async",
               fmt::format("{} bytes", bytes));
}

Result<void> fill_words(void* device, std::uint32_t value, std::size_t words, CUstream stream) {
  if (words == 0) return {};
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->MemsetD32Async(address(device), value, words, stream), "cuMemsetD32Async",
               fmt::format("{} words", words));
}

}  // namespace convoy::cuda
