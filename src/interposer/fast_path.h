// What a program's executions look at. Each makes a variant pack, fills it, runs a plan and destroys the pack, and the
// program's own work pushes out of the caches whatever lies far apart: with 20 lines of memory more an execution takes
// 1 us longer, with these three (this one, one of its plans, a thread's own) a quarter of that. Its code lies in one
// place, and is fetched while cuDNN makes the pack: another half of a microsecond. So is the plan that ran after this
// one the last time: cuDNN itself is to look at it.
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
  unsigned destroyed = 0;                   // FastPath::destroyed_elsewhere when it was made
  int inside = 0;                           // inside.h
  bool plain = false;                       // the pack holds nothing else than this
  std::uint8_t executed = 0;                // the number of the plan it executed last, see SettledPlans; 0: none
  std::uint8_t expected = 0;                // of the one that came after it the last time
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
    const Entry* const entry = in(first_of(plan), plan);
    return entry != nullptr ? entry : in(second_of(plan), plan);
  }
  // Where its buckets are full it stays unsettled.
  void put(cudnnBackendDescriptor_t plan, const StandIn* stand_in);
  void forget(cudnnBackendDescriptor_t plan);

  // A thread executes this one: keeps which came after which, for a program executes its layers in the same order.
  void follow(const Entry& entry, OfThread& thread) {
    const auto number = static_cast<std::uint8_t>(&entry - entries_.data() + 1);
    if (thread.expected != number && thread.executed != 0) {
      next_[thread.executed].store(number, std::memory_order_relaxed);
    }
    thread.executed = number;
    thread.expected = next_[number].load(std::memory_order_relaxed);
  }
  // Fetches what the thread's next execution is going to look at, cuDNN's plan among it: a guess that may be wrong, or
  // of a plan that is gone.
  void fetch_expected(const OfThread& thread) const {
    if (thread.expected == 0) return;
    __builtin_prefetch(&next_[thread.expected]);
    const Entry& entry = entries_[thread.expected - 1];
    const auto* const plan = reinterpret_cast<const char*>(entry.plan.load(std::memory_order_relaxed));
    for (int line = 0; line < kPlanLines; ++line) __builtin_prefetch(plan + 64 * line);
    __builtin_prefetch(entry.stand_in.load(std::memory_order_relaxed));
  }

  // Around fork().
  void lock();
  void unlock();

 private:
  static constexpr std::size_t kBuckets = 59, kInBucket = 4;  // with the rest of FastPath a page
  static constexpr int kPlanLines = 4;
  // Two buckets of a plan's. The second is for those whose first is full: 190 of 200 plans find room, in one 170.
  static std::uint64_t hash_of(cudnnBackendDescriptor_t plan) {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    return reinterpret_cast<std::uintptr_t>(plan) * golden;
  }
  static std::size_t first_of(cudnnBackendDescriptor_t plan) {
    return kInBucket * ((hash_of(plan) >> 32) * kBuckets >> 32);
  }
  static std::size_t second_of(cudnnBackendDescriptor_t plan) {
    const std::uint64_t steps = 1 + ((hash_of(plan) & 0xffffffff) * (kBuckets - 1) >> 32);
    return (first_of(plan) + kInBucket * steps) % (kInBucket * kBuckets);
  }
  const Entry* in(std::size_t bucket, cudnnBackendDescriptor_t plan) const {
    for (std::size_t i = bucket; i < bucket + kInBucket; ++i) {
      if (entries_[i].plan.load(std::memory_order_acquire) == plan) return &entries_[i];
    }
    return nullptr;
  }
  // Shows `body` the entries where a plan may be, until it says true.
  template <class Body>
  void look(cudnnBackendDescriptor_t plan, Body body) {
    for (const std::size_t bucket : {first_of(plan), second_of(plan)}) {
      for (std::size_t i = bucket; i < bucket + kInBucket; ++i) {
        if (body(entries_[i])) return;
      }
    }
  }
  alignas(64) std::array<Entry, kBuckets * kInBucket> entries_;  // a bucket a line
  // By a plan's number, one more than its place in entries_: the number of the plan that came after it; 0: none yet.
  std::array<std::atomic<std::uint8_t>, kBuckets * kInBucket + 1> next_{};
};
static_assert(sizeof(SettledPlans::Entry) == 16);
struct alignas(4096) FastPath {
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
static_assert(sizeof(FastPath) == 4096);
extern constinit FastPath fast_path;

// Of a function that each execution on the fast path calls.
#define CONVOY_FAST_PATH [[gnu::section("convoy_fast_path")]]

}  // namespace convoy::interposer
