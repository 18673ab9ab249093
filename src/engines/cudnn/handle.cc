#include "engines/cudnn/handle.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/graph.h"

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

// cudnnCreate allocates memory, which CUDA refuses to a thread that captures a stream unless it says that it may.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const cuda::DriverApi& api) : api_(api) { api_.ThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { api_.ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  const cuda::DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
};

}  // namespace

Handle::~Handle() {
  if (raw_ == nullptr || !goes_back_) return;
  const std::lock_guard lock(idle().mutex);
  idle().handles[ordinal_].push_back(raw_);
}

Result<Handle> borrow_handle(const Api& api, int ordinal) {
  cuda::KeptByGraph* const kept = cuda::kept_by_capture();
  if (kept == nullptr) return Handle::borrow(api, ordinal);
  std::shared_ptr<void>& own = (*kept)[&idle()];
  if (own == nullptr) {
    CONVOY_TRY(Handle handle, Handle::borrow(api, ordinal));
    own = std::make_shared<Handle>(std::move(handle));
  }
  return Handle(static_cast<const Handle*>(own.get())->get(), ordinal, false);
}

Result<Handle> Handle::borrow(const Api& api, int ordinal) {
  CONVOY_TRY(const cuda::DriverApi* driver, cuda::make_current(ordinal));
  {
    const std::lock_guard lock(idle().mutex);
    auto& left = idle().handles[ordinal];
    if (!left.empty()) {
      const cudnnHandle_t handle = left.back();
      left.pop_back();
      return Handle(handle, ordinal);
    }
  }
  const RelaxedCapture relaxed(*driver);
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = api.Create(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return Handle(handle, ordinal);
  return error_of(failure_of(api, status), fmt::format("cudnnCreate for cuda:{}", ordinal));
}

}  // namespace convoy::cudnn
