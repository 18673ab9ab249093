// How long a network takes: when it is run again to find out, and what is said of the times.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/program.h"

namespace convoy::cli {

struct TimingFlags {
  std::optional<int> repeat;       // timed runs, at least
  std::optional<double> duration;  // seconds of timed runs, at least
  std::string warm_up;             // runs ("3") or a time ("200ms"); empty: not given
  bool given() const { return repeat || duration || !warm_up.empty(); }
};
void add_timing_flags(Parser app, TimingFlags& flags);

struct TimingPlan {
  int warm_ups = 1;  // runs before the timed ones, at least
  double warm_up_seconds = 0.1;
  int runs = 3;  // timed ones, at least (but see `patience`)
  double seconds = 0.5;
  double patience = 5;  // once so much time has passed, `runs` is not insisted on
};
// What the flags ask for. Errors name the flag.
Result<TimingPlan> timing_plan(const TimingFlags& flags);

// The times of runs that gave the same network's answers.
class RunTimes {
 public:
  // A run of a session: the first one finds cold caches and untouched memory. `images`: the size of its batch.
  void add(const RunStatistics& statistics, bool first, std::int64_t images);

  // Runs it again as the plan says; the first run counts as one of the warm-ups, or, where there are to be none, as
  // timed. Does nothing where that run alone took longer than the plan's patience. The times until then don't count.
  Result<void> measure(Session& session, std::span<const HostTensor> inputs, const TimingPlan& plan);

  bool first_only() const { return seconds_.empty(); }
  double median() const { return first_only() ? first_ : quantile(0.5); }
  // Mean of each step, in seconds, over the runs that count; empty where the session doesn't say.
  std::vector<double> step_seconds() const;
  // "2.41 ms (median of 207 runs; p10 2.38 ms, p90 2.61 ms), 415 images a second"
  std::string text() const;
  // The same as fields of a document: seconds, p10_seconds ...
  Json json() const;

 private:
  double quantile(double q) const;
  double device_median() const;
  double images_per_second() const { return median() > 0 ? static_cast<double>(images_) / median() : 0; }
  void count(const RunStatistics& statistics);
  void count_steps(const RunStatistics& statistics);

  double first_ = 0;
  std::int64_t images_ = 1;
  int warm_ups_ = 0;
  std::vector<double> seconds_;         // of the runs that count
  std::vector<double> device_seconds_;  // of those on a GPU, without copies
  std::vector<double> first_steps_;
  std::vector<double> step_sums_;  // over the last session's runs that count
  int step_runs_ = 0;
};

}  // namespace convoy::cli
