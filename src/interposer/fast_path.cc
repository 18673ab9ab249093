#include "interposer/fast_path.h"

#include <mutex>

namespace convoy::interposer {
namespace {

std::mutex writing;

}  // namespace

constinit thread_local OfThread of_thread;
constinit FastPath fast_path;

void SettledPlans::put(cudnnBackendDescriptor_t plan, const StandIn* stand_in) {
  const std::lock_guard lock(writing);
  if (find(plan) != nullptr) return;
  for (std::size_t i = first_of(plan), end = i + kInBucket; i < end; ++i) {
    Entry& entry = entries_[i];
    if (entry.plan.load(std::memory_order_relaxed) != nullptr) continue;
    entry.stand_in.store(stand_in, std::memory_order_relaxed);
    entry.plan.store(plan, std::memory_order_release);
    return;
  }
}

void SettledPlans::lock() { writing.lock(); }

void SettledPlans::unlock() { writing.unlock(); }

void SettledPlans::forget(cudnnBackendDescriptor_t plan) {
  if (find(plan) == nullptr) return;
  const std::lock_guard lock(writing);
  for (std::size_t i = first_of(plan), end = i + kInBucket; i < end; ++i) {
    Entry& entry = entries_[i];
    if (entry.plan.load(std::memory_order_relaxed) == plan) entry.plan.store(nullptr, std::memory_order_release);
  }
}

}  // namespace convoy::interposer
