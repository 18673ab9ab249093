// Timing several contestants side by side. No policy about who wins, no engines: callables and a clock.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "convoy/thread_team.h"
#include "select/measure/statistics.h"

namespace convoy::selection {

struct TimingOptions {
  int min_samples = 5;
  int max_samples = 50;
  double target_uncertainty = 0.02;   // a contestant is done when its median is known this well (95%)
  double min_sample_seconds = 20e-6;  // shorter bodies are repeated within one sample, so the clock's grain is small
  double budget_seconds = 1.0;        // no new round starts after this long
};

struct Contestant {
  std::function<void()> body;     // one execution
  std::function<void()> prepare;  // untimed, before each sample (cache state); may be empty. With it a sample is one
                                  // execution, since a repeat would find other caches.
};

// Seconds from any fixed origin; monotonic.
using Clock = FunctionRef<double()>;

// Runs rounds: in each, every unfinished contestant gives one sample, in an order that alternates direction. A machine
// that drifts or is disturbed for a while so disturbs all alike. Medians and quartiles make single outliers harmless.
// One untimed warm-up execution each comes first. Always completes one round, whatever the budget.
std::vector<Summary> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options,
                                      Clock clock);

}  // namespace convoy::selection
