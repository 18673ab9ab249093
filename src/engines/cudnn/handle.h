// cuDNN's handles: kept for each device, lent to one user at a time.
#pragma once

#include <utility>

#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// A handle that nobody else has; goes back when it is destroyed. No handle is ever destroyed, since the driver may be
// gone by the time the last thread ends.
class Handle {
 public:
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)), ordinal_(other.ordinal_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle();
  cudnnHandle_t get() const { return raw_; }

 private:
  friend Result<Handle> borrow_handle(const Api& api, int ordinal);
  Handle(cudnnHandle_t raw, int ordinal) : raw_(raw), ordinal_(ordinal) {}
  cudnnHandle_t raw_;
  int ordinal_;
};

// Makes the device's context current. One that is there is lent; where all are, another is made, which takes
// milliseconds and device memory: plans borrow one when they are made, so that executions find it. One that an
// execution needs beyond that may be made while a stream is captured.
Result<Handle> borrow_handle(const Api& api, int ordinal);

}  // namespace convoy::cudnn
