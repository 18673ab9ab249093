// What a program's descriptors belong to.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "interposer/recorder.h"
#include "interposer/substitution.h"

namespace convoy::interposer {

// A finalised graph, heuristic, configuration or plan, and what it belongs to. Plans are looked up at every execution.
struct Owned {
  GraphRecord* row = nullptr;
  PlanRecord* plan = nullptr;
  const Operands* operands = nullptr;  // of the graph; null where no problem expresses it
  const StandIn* stand_in = nullptr;   // of a plan
};

class Owners {
 public:
  void put(cudnnBackendDescriptor_t raw, Owned owned) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    shard.owned.insert_or_assign(raw, owned);
  }
  Owned get(cudnnBackendDescriptor_t raw) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.owned.find(raw);
    return found == shard.owned.end() ? Owned() : found->second;
  }
  void forget(cudnnBackendDescriptor_t raw) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    shard.owned.erase(raw);
  }
  void lock() {
    for (Shard& shard : shards_) shard.mutex.lock();
  }
  void unlock() {
    for (Shard& shard : shards_) shard.mutex.unlock();
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<cudnnBackendDescriptor_t, Owned> owned;
  };
  Shard& shard_of(cudnnBackendDescriptor_t raw) {
    return shards_[(reinterpret_cast<std::uintptr_t>(raw) >> 4) % shards_.size()];
  }
  std::array<Shard, 64> shards_;
};

}  // namespace convoy::interposer
