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
  look(plan, [&](Entry& entry) {
    if (entry.plan.load(std::memory_order_relaxed) != nullptr) return false;
    entry.stand_in.store(stand_in, std::memory_order_relaxed);
    entry.plan.store(plan, std::memory_order_release);
    return true;
  });
}

void SettledPlans::lock() { writing.lock(); }

void SettledPlans::unlock() { writing.unlock(); }

void SettledPlans::forget(cudnnBackendDescriptor_t plan) {
  if (find(plan) == nullptr) return;
  const std::lock_guard lock(writing);
  look(plan, [&](Entry& entry) {
    if (entry.plan.load(std::memory_order_relaxed) != plan) return false;
    entry.plan.store(nullptr, std::memory_order_release);
    return true;
  });
}

}  // namespace convoy::interposer
