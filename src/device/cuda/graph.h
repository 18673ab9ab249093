// A stream's work captured as a graph, which is launched as a whole.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

// What a graph needs for as long as it lives and nobody else may use meanwhile, by who keeps it there.
using KeptByGraph = std::map<const void*, std::shared_ptr<void>>;
// Of the capture under way on the calling thread; null: none is.
KeptByGraph* kept_by_capture();

// Calls `enqueue`, which puts into a stream that the caller captures. It may allocate meanwhile, whatever the mode of
// that capture. What is returned is what the caller's graph needs for as long as it lives.
Result<std::shared_ptr<KeptByGraph>> join_capture(const std::function<Result<void>()>& enqueue);
Result<bool> is_captured(CUstream stream);

class CapturedGraph {
 public:
  // Of the thread's current device. `enqueue` is called once, on this thread, and may neither allocate nor wait; other
  // threads may do what they like. Errors: those of `enqueue`; what a capture doesn't allow.
  static Result<CapturedGraph> capture(CUstream stream, const std::function<Result<void>()>& enqueue);
  CapturedGraph(CapturedGraph&& other) noexcept;
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  ~CapturedGraph();

  // Not while another launch of it is under way, unless that is before it in the same stream.
  Result<void> launch(CUstream stream) const;

 private:
  CapturedGraph(const DriverApi* api, CUgraphExec executable, KeptByGraph kept)
      : api_(api), executable_(executable), kept_(std::move(kept)) {}
  const DriverApi* api_;
  CUgraphExec executable_;
  KeptByGraph kept_;
};

}  // namespace convoy::cuda
