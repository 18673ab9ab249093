#include "network/run/execution_pool.h"

#include <unistd.h>

#include <utility>

namespace convoy::network {

ExecutionPool::ExecutionPool(int most, Make make) : most_(most), make_(std::move(make)), process_(getpid()) {}

Result<ExecutionPool::Taken> ExecutionPool::take() {
  std::unique_lock lock(mutex_);
  forget_other_processes();
  if (!idle_.empty()) {
    Taken taken(idle_.back().release(), {this});
    idle_.pop_back();
    return taken;
  }
  while (size_ >= most_) {
    Waiter waiter;
    waiting_.push_back(&waiter);
    waiter.served.wait(lock, [&] { return waiter.called; });
    if (waiter.execution != nullptr) return Taken(waiter.execution, {this});
  }
  ++size_;
  lock.unlock();
  auto made = make_();
  if (made.ok()) return Taken(made->release(), {this});
  lock.lock();
  --size_;
  call_next(nullptr);  // may have more luck
  return made.error();
}

// Handed to who waits longest: else who runs again and again would find it each time before others wake up.
void ExecutionPool::give_back(Execution* execution) {
  const std::lock_guard lock(mutex_);
  if (!call_next(execution)) idle_.emplace_back(execution);
}

bool ExecutionPool::call_next(Execution* execution) {
  if (waiting_.empty()) return false;
  Waiter& next = *waiting_.front();
  waiting_.pop_front();
  next.execution = execution;
  next.called = true;
  next.served.notify_one();
  return true;
}

// A forked process has the idle ones, and neither the threads that had taken others nor those that waited.
void ExecutionPool::forget_other_processes() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  size_ = static_cast<int>(idle_.size());
  waiting_.clear();
}

int ExecutionPool::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace convoy::network
