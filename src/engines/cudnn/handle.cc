#include "engines/cudnn/handle.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/device.h"

namespace convoy::cudnn {
namespace {

struct Idle {
  std::mutex mutex;
  std::map<int, std::vector<cudnnHandle_t>> handles;  // by device
};
Idle& idle() {
  static Idle& kept = *new Idle;
  return kept;
}

struct OfThread {
  std::map<int, cudnnHandle_t> handles;
  ~OfThread() {
    const std::lock_guard lock(idle().mutex);
    for (const auto& [ordinal, handle] : handles) idle().handles[ordinal].push_back(handle);
  }
};

}  // namespace

Result<cudnnHandle_t> thread_handle(const Api& api, int ordinal) {
  thread_local OfThread mine;
  CONVOY_CHECK(cuda::make_current(ordinal));
  if (const auto found = mine.handles.find(ordinal); found != mine.handles.end()) return found->second;
  {
    const std::lock_guard lock(idle().mutex);
    auto& left = idle().handles[ordinal];
    if (!left.empty()) {
      mine.handles[ordinal] = left.back();
      left.pop_back();
      return mine.handles[ordinal];
    }
  }
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = api.Create(&handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    return error_of(failure_of(api, status), fmt::format("cudnnCreate for cuda:{}", ordinal));
  }
  mine.handles[ordinal] = handle;
  return handle;
}

}  // namespace convoy::cudnn
