#include "network/run/execution_pool.h"

#include <utility>

#include "base/fork_mutex.h"

namespace convoy::network {

ExecutionPool::ExecutionPool(int most, Make make) : most_(most), make_(std::move(make)) {
  const std::lock_guard lock(fork_mutex());
  forks_ = forks();
}

ExecutionPool::Taken ExecutionPool::taken(std::vector<std::unique_ptr<Execution>>::iterator idle) {
  Taken taken(idle->release(), {this});
  idle_.erase(idle);
  return taken;
}

Result<ExecutionPool::Taken> ExecutionPool::take(const Fit& fit) {
  std::unique_lock lock(fork_mutex());
  forget_other_processes();
  auto best = idle_.end();
  Execution::Fit best_fit = Execution::Fit::waits;
  for (auto each = idle_.begin(); each != idle_.end(); ++each) {
    const Execution::Fit own = fit ? fit(**each) : Execution::Fit::idle;
    if (own == Execution::Fit::waits || own < best_fit) continue;
    best = each;
    best_fit = own;
  }
  if (best != idle_.end()) return taken(best);
  while (true) {
    if (size_ < most_) {
      if (auto made = take_new(lock)) return *std::move(made);
    }
    if (!idle_.empty()) return taken(idle_.begin());
    Waiter waiter;
    waiting_.push_back(&waiter);
    waiter.served.wait(lock, [&] { return waiter.called; });
    if (waiter.execution != nullptr) return Taken(waiter.execution, {this});
  }
}

// Nothing: there is no memory for another, and others are there.
std::optional<Result<ExecutionPool::Taken>> ExecutionPool::take_new(std::unique_lock<std::mutex>& lock) {
  ++size_;
  lock.unlock();
  auto made = make_();
  lock.lock();
  if (made.ok()) {
    all_.push_back(made->get());
    return Taken(made->release(), {this});
  }
  --size_;
  if (size_ > 0 && made.error().code == ErrorCode::out_of_memory) return std::nullopt;
  call_next(nullptr);  // may have more luck
  return Result<Taken>(made.error());
}

// Handed to who waits longest: else who runs again and again would find it each time before others wake up.
void ExecutionPool::give_back(Execution* execution) {
  const std::lock_guard lock(fork_mutex());
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
  if (forks() == forks_) return;
  forks_ = forks();
  size_ = static_cast<int>(idle_.size());
  waiting_.clear();
}

std::size_t ExecutionPool::graph_bytes() const {
  const std::lock_guard lock(fork_mutex());
  std::size_t bytes = 0;
  for (const Execution* execution : all_) bytes += execution->graph_bytes();
  return bytes;
}

int ExecutionPool::size() const {
  const std::lock_guard lock(fork_mutex());
  return size_;
}

}  // namespace convoy::network
