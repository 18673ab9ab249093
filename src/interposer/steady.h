// What a program's executions look at. Each makes a variant pack, fills it, runs a plan and destroys the pack, and the
// program's own work pushes out of the caches whatever lies far apart: with 20 lines of memory more an execution takes
// 1 us longer, with these three (this one, one of its plans, a thread's own) a quarter of that. Its code lies in one
// place, and is fetched while cuDNN makes the pack: another half of a microsecond.
#pragma once

#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace convoy::interposer {

struct StandIn;

// What a variant pack holds, as far as it is understood.
struct VariantPack {
  static constexpr std::int64_t kMost = 16;
  std::int64_t uid_count = 0, pointer_count = 0;
  void* workspace = nullptr;
  std::array<std::int64_t, kMost> uids{};
  std::array<void*, kMost> pointers{};

  // Of the tensor with that uid; null: the pack has none.
  void* pointer_of(std::int64_t uid) const;
};

struct alignas(64) OfThread {
  cudnnBackendDescriptor_t pack = nullptr;  // the one that it made last
  unsigned destroyed = 0;                   // Steady::destroyed_elsewhere when it was made
  int inside = 0;                           // inside.h
  bool plain = false;                       // the pack holds nothing else than this
  VariantPack held;
};
extern constinit thread_local OfThread of_thread;

// Plans of which nothing more is to be learnt, and what stands in for each (null: nothing). Read without a lock.
class SettledPlans {
 public:
  struct Entry {
    std::atomic<cudnnBackendDescriptor_t> plan{nullptr};
    std::atomic<const StandIn*> stand_in{nullptr};
  };

  // Null: not settled.
  const Entry* find(cudnnBackendDescriptor_t plan) const {
    for (const Entry& entry : buckets_[bucket_of(plan)].entries) {
      if (entry.plan.load(std::memory_order_acquire) == plan) return &entry;
    }
    return nullptr;
  }
  // Where its bucket is full it stays unsettled.
  void put(cudnnBackendDescriptor_t plan, const StandIn* stand_in);
  void forget(cudnnBackendDescriptor_t plan);

  // Around fork().
  void lock();
  void unlock();

 private:
  struct alignas(64) Bucket {
    std::array<Entry, 4> entries;
  };
  static constexpr std::size_t kBuckets = 63;  // with the rest of Steady a page
  static std::size_t bucket_of(cudnnBackendDescriptor_t plan) {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    return ((reinterpret_cast<std::uintptr_t>(plan) * golden >> 32) * kBuckets) >> 32;
  }
  std::array<Bucket, kBuckets> buckets_;
};
struct alignas(4096) Steady {
  // The program's cuDNN; null until it made its first descriptor, or where an execution needs more than these.
  std::atomic<decltype(&cudnnBackendCreateDescriptor)> create{nullptr};  // stored last: the others are there then
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  // cuDNN uses addresses again: what a thread remembers of a pack is void once another thread destroyed one.
  std::atomic<unsigned> destroyed_elsewhere{0};
  std::atomic<bool> substituting{false};  // some plan has a stand-in: until then what packs hold is of no interest
  SettledPlans plans;
};
static_assert(sizeof(Steady) == 4096);
extern constinit Steady steady;

// Of a function that each steady execution calls.
#define CONVOY_STEADY_CODE [[gnu::section("convoy_steady_code")]]

}  // namespace convoy::interposer
