// In a file of its own because it is the one that registers something for the exit: scripts/check-exit knows it.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "device/onednn.h"

namespace convoy::onednn {
namespace {

constinit std::atomic<bool> has_ended = false;

}  // namespace

bool ended() { return has_ended.load(std::memory_order_acquire); }

void used(std::uint64_t kind) {
  // Never destroyed: asked while the process ends, too.
  static auto& mutex = *new std::mutex;
  static auto& kinds = *new std::unordered_set<std::uint64_t>;
  const std::lock_guard lock(mutex);
  if (!kinds.insert(kind).second) return;
  // Without an entry nothing would tell of the end: better to end now.
  if (std::atexit([] { has_ended.store(true, std::memory_order_release); }) != 0) has_ended = true;
}

}  // namespace convoy::onednn
