// Timing several contestants side by side. No engines and no clock of its own: callables and a clock are given.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "convoy/result.h"
#include "convoy/thread_team.h"
#include "select/measure/statistics.h"

namespace convoy::selection {

struct TimingOptions {
  int warm_ups = 2;                  // untimed executions of each contestant; a single one where it takes over 0.1 s
  int min_samples = kEnoughSamples;  // of one that may still win
  int max_samples = 50;
  double target_uncertainty = 0.02;  // enough is known once every median that may win is known this well (95%)
  double hopeless = 3;  // so many times slower than the best in min_samples that count (two, where that is longer than
                        // a disturbance): no more samples
  double min_sample_seconds = 20e-6;  // shorter bodies are repeated within one sample, so the clock's grain is small
  double budget_seconds = 1.0;        // a sample that would end later than this is not started
  // Whether the machine is as fast as it can be, asked before each sample, when it may wait for that, and after it;
  // empty: always.
  std::function<bool(bool may_wait)> at_full_speed;
};

struct Contestant {
  std::function<Result<void>()> body;  // one execution
  std::function<void()> prepare;       // untimed, before each sample (cache state); may be empty. With it a sample is
                                       // one execution, since a repeat would find other caches.
  std::function<Result<double>()> sample;  // instead of both: takes one sample and says how long an execution took,
                                           // where the clock can't see it
};

struct Timing {
  Summary summary;               // no samples where the time ended before its first sample, or it failed
  bool settled = false;          // sampled until the rules below were satisfied; otherwise cut off
  std::optional<Error> failure;  // of an execution: it is out of the race
};

// Seconds from any fixed origin; monotonic.
using Clock = FunctionRef<double()>;

// Rounds: in each, every contestant still in the race gives one sample, in an order that alternates direction, so that
// whatever happens to the machine happens to all alike. Those in the race at the end have been in every round, and a
// round that the time cuts short doesn't count. Out of the race is who is `hopeless`, or, after min_samples, whose
// median lies above the best one's by more than both their uncertainties and 5%; its times are then scaled by how much
// the winner's own times have changed since, so that a drifting machine doesn't favour who left early. An execution
// that fails ends its contestant; who had lost, perhaps against it, comes back.
//
// A sample during which the machine was slowed down is taken again, up to three times, while that helps now and then.
//
// It ends when every median in the race is known to target_uncertainty, after max_samples, at the end of the budget, or
// as soon as `keep_going` says no.
std::vector<Timing> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options, Clock clock,
                                     FunctionRef<bool()> keep_going);
std::vector<Timing> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options,
                                     Clock clock);

}  // namespace convoy::selection
