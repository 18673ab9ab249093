// The first cudnnCreate of a process, which loads and sets up what all others use, runs alone, as cuDNN's guide asks.
#pragma once

#include <cudnn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace convoy::interposer {

template <class Create>
cudnnStatus_t first_alone(Create create) {
  static std::atomic<bool> done{false};
  static thread_local bool within = false;  // it may make another by the name that is exported here
  static std::atomic<pid_t> busy{0};        // whose first call runs; a child doesn't wait for its parent's
  if (within || done.load(std::memory_order_acquire)) return create();
  const pid_t self = getpid();
  for (;;) {
    pid_t before = busy.load();
    if (before != self && busy.compare_exchange_strong(before, self)) break;
    if (done.load(std::memory_order_acquire)) return create();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  within = true;
  const cudnnStatus_t status = create();
  within = false;
  if (status == CUDNN_STATUS_SUCCESS) done.store(true, std::memory_order_release);
  busy.store(0);
  return status;
}

}  // namespace convoy::interposer
