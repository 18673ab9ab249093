#include "device/cuda/graph.h"

#include <utility>

#include "device/cuda/errors.h"

namespace convoy::cuda {
namespace {

thread_local KeptByGraph* kept_now = nullptr;

class Keeping {
 public:
  explicit Keeping(KeptByGraph& kept) : before_(std::exchange(kept_now, &kept)) {}
  Keeping(const Keeping&) = delete;
  Keeping& operator=(const Keeping&) = delete;
  ~Keeping() { kept_now = before_; }

 private:
  KeptByGraph* before_;
};

// CUDA refuses memory to a thread while a stream is captured, unless the thread says that it may have some.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& api) : api_(api) { api_.ThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { api_.ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  const DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
};

}  // namespace

KeptByGraph* kept_by_capture() { return kept_now; }

Result<bool> is_captured(CUstream stream) {
  CONVOY_TRY(const DriverApi* api, driver());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CONVOY_CHECK(check(api->StreamIsCapturing(stream, &status), "cuStreamIsCapturing", ""));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<std::shared_ptr<KeptByGraph>> join_capture(const std::function<Result<void>()>& enqueue) {
  CONVOY_TRY(const DriverApi* api, driver());
  auto kept = std::make_shared<KeptByGraph>();
  const Keeping keeping(*kept);
  const RelaxedCapture relaxed(*api);
  CONVOY_CHECK(enqueue());
  return kept;
}

Result<CapturedGraph> CapturedGraph::capture(CUstream stream, const std::function<Result<void>()>& enqueue) {
  CONVOY_TRY(const DriverApi* api, driver());
  KeptByGraph kept;
  // Other threads' allocations are no affair of this capture.
  CONVOY_CHECK(check(api->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture", ""));
  const Result<void> enqueued = [&] {
    const Keeping keeping(kept);
    return enqueue();
  }();
  CUgraph graph = nullptr;
  const CUresult ended = api->StreamEndCapture(stream, &graph);
  if (!enqueued.ok() || ended != CUDA_SUCCESS) {
    if (ended == CUDA_SUCCESS) api->GraphDestroy(graph);
    return enqueued.ok() ? driver_error(ended, "cuStreamEndCapture", "") : enqueued.error();
  }
  CUgraphExec executable = nullptr;
  const CUresult made = api->GraphInstantiate(&executable, graph, 0);
  api->GraphDestroy(graph);
  CONVOY_CHECK(check(made, "cuGraphInstantiate", ""));
  return CapturedGraph(api, executable, std::move(kept));
}

CapturedGraph::CapturedGraph(CapturedGraph&& other) noexcept
    : api_(other.api_), executable_(std::exchange(other.executable_, nullptr)), kept_(std::move(other.kept_)) {}

CapturedGraph::~CapturedGraph() {
  if (executable_ != nullptr) api_->GraphExecDestroy(executable_);
}

Result<void> CapturedGraph::launch(CUstream stream) const {
  return check(api_->GraphLaunch(executable_, stream), "cuGraphLaunch", "");
}

}  // namespace convoy::cuda
