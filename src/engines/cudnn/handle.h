// cuDNN's handles: kept for each device, lent to one user at a time.
#pragma once

#include <utility>

#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// A handle that nobody else has; goes back when it is destroyed. No handle is ever destroyed, since the driver may be
// gone by the time the last thread ends.
class Handle {
 public:
  Handle(Handle&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)), ordinal_(other.ordinal_), goes_back_(other.goes_back_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle();
  cudnnHandle_t get() const { return raw_; }

 private:
  friend Result<Handle> borrow_handle(const Api& api, int ordinal);
  static Result<Handle> borrow(const Api& api, int ordinal);  // of those that nobody has
  Handle(cudnnHandle_t raw, int ordinal, bool goes_back = true) : raw_(raw), ordinal_(ordinal), goes_back_(goes_back) {}
  cudnnHandle_t raw_;
  int ordinal_;
  bool goes_back_;
};

// Makes the device's context current. One that is there is lent; where all are, another is made, which takes
// milliseconds and device memory: plans borrow one when they are made, so that executions find it. One that an
// execution needs beyond that may be made while a stream is captured. What Convoy captures (device/cuda/graph.h) has
// one handle, which its graph keeps: its launches have that handle's memory in them.
Result<Handle> borrow_handle(const Api& api, int ordinal);

}  // namespace convoy::cudnn
