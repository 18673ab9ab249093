#include "device/apart.h"

#include <sched.h>

#include "base/clock.h"

namespace convoy {
namespace {

// Seconds.
constexpr double kStaysAwake = 30e-6;  // a thread without work spins for longer than that
constexpr double kPause = 1e-3;        // from one move of a thread to its next: a full machine may have no better place
constexpr double kPatience = 1e-3;     // for threads to wake up

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

Apart::Region::Region(Apart& apart)
    : apart_(apart), may_sleep_(monotonic_seconds() - apart.ended_.load(kRelaxed) > kStaysAwake) {}

Apart::Region::~Region() { apart_.ended_.store(monotonic_seconds(), kRelaxed); }

void Apart::Region::enter(int thread, int present) {
  apart_.settle(thread);
  if (!may_sleep_) return;
  awake_.fetch_add(1, kRelaxed);
  if (thread != 0) return;
  const double start = monotonic_seconds();
  while (awake_.load(kRelaxed) < present && monotonic_seconds() - start < kPatience) sched_yield();
}

void Apart::settle(int thread) {
  const int here = sched_getcpu();
  LastRun& own = last_runs_[thread];
  if (own.processor.load(kRelaxed) != here) own.processor.store(here, kRelaxed);
  for (int other = 0; other < thread; ++other) {
    if (last_runs_[other].processor.load(kRelaxed) == here) return move(own);
  }
}

void Apart::move(LastRun& own) {
  const double now = monotonic_seconds();
  if (now - own.moved.load(kRelaxed) < kPause) return;
  own.moved.store(now, kRelaxed);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t free = allowed;
  for (int other = 0; other < threads_; ++other) {
    if (const int taken = last_runs_[other].processor.load(kRelaxed); taken >= 0) CPU_CLR(taken, &free);
  }
  if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof free, &free) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
  own.processor.store(sched_getcpu(), kRelaxed);
}

}  // namespace convoy
