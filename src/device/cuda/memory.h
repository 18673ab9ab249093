// Memory of a device: owned buffers, a stream-ordered pool for workspaces, copies and fills. An allocation that fails
// says what it was for, what it needed and what is free: "cuda:0: 12.0 GiB needed for the workspace of cudnn.eng0,
// 3.1 GiB of 139.8 GiB are free". Sizes are in bytes; 0 bytes give a null pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

// "0.5 MiB", "12.0 GiB"
std::string memory_text(std::int64_t bytes);

// A buffer, aligned to 256 at least, its contents unspecified.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(int ordinal, std::size_t bytes, std::string_view purpose);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();  // waits for the device: nothing may still use the buffer

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Host memory that the device copies from and to without a detour.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(int ordinal, std::size_t bytes, std::string_view purpose);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  PinnedMemory() = default;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class WorkspacePool;

// Memory that belongs to a stream: usable by what is enqueued on it between the allocation and the object's end, which
// gives it back in the stream's order, without waiting.
class StreamMemory {
 public:
  StreamMemory(StreamMemory&& other) noexcept;
  StreamMemory& operator=(StreamMemory&& other) noexcept;
  ~StreamMemory();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class WorkspacePool;
  StreamMemory(int ordinal, void* data, std::size_t bytes, CUstream stream)
      : ordinal_(ordinal), data_(data), bytes_(bytes), stream_(stream) {}
  int ordinal_;
  void* data_;
  std::size_t bytes_;
  CUstream stream_;
};

// A pool of Convoy's own on a device. What is given back is kept for the next allocation, until trim(); safe from any
// thread. Outlives nothing: memory taken from it must be gone before it.
class WorkspacePool {
 public:
  static Result<WorkspacePool> create(int ordinal);
  WorkspacePool(WorkspacePool&& other) noexcept;
  WorkspacePool& operator=(WorkspacePool&& other) noexcept;
  ~WorkspacePool();

  // Where memory is short, what the pool keeps unused is given back and it is tried once more.
  Result<StreamMemory> allocate(std::size_t bytes, CUstream stream, std::string_view purpose) const;
  // Gives back to the device what is unused, but for `keep` bytes.
  Result<void> trim(std::size_t keep = 0) const;
  Result<std::int64_t> reserved_bytes() const;  // held from the device
  Result<std::int64_t> used_bytes() const;

 private:
  WorkspacePool(const DriverApi* api, CUmemoryPool pool, int ordinal) : api_(api), pool_(pool), ordinal_(ordinal) {}
  Result<std::int64_t> attribute(CUmemPool_attribute which) const;
  const DriverApi* api_;
  CUmemoryPool pool_;
  int ordinal_;
};

// The device's pool that all of Convoy shares, made on first use and never destroyed.
Result<const WorkspacePool*> workspace_pool(int ordinal);

// Copies and fills, enqueued on `stream` of the thread's current device. With host memory that is not pinned they may
// wait for what was enqueued before.
Result<void> copy_to_device(void* device, const void* host, std::size_t bytes, CUstream stream);
Result<void> copy_to_host(void* host, const void* device, std::size_t bytes, CUstream stream);
Result<void> copy_on_device(void* to, const void* from, std::size_t bytes, CUstream stream);
Result<void> fill_bytes(void* device, std::uint8_t value, std::size_t bytes, CUstream stream);
Result<void> fill_words(void* device, std::uint32_t value, std::size_t words, CUstream stream);  // of 4 bytes

}  // namespace convoy::cuda
