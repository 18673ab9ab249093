#include "cli/run_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "core/text.h"
#include "report/format.h"
#include "select/measure/statistics.h"

namespace convoy::cli {
namespace {

constexpr int kMostRuns = 1'000'000;
constexpr int kStepRuns = 5;  // on a GPU, where timing steps makes runs longer

}  // namespace

void add_timing_flags(Parser app, TimingFlags& flags) {
  const std::map<std::string, double> units = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}};
  app.add_option("--repeat", flags.repeat, "Time so many runs (with --duration: at least)")
      .type_name("N")
      .range(1, kMostRuns);
  app.add_option("--duration", flags.duration,
                 "Time runs for so long (default 500ms; one run, called the first, where classes, labels or files are "
                 "asked for)")
      .type_name("SECONDS")
      .unit(units)
      .range(0.0, 1e6);
  app.add_option("--warmup", flags.warm_up, "Runs before those that are timed, or how long: 5, 200ms (default: 100ms)")
      .type_name("N|TIME");
}

Result<TimingPlan> timing_plan(const TimingFlags& flags) {
  TimingPlan plan;
  if (flags.repeat) plan.runs = *flags.repeat, plan.seconds = 0;
  if (flags.duration) plan.seconds = *flags.duration;
  if (flags.duration && !flags.repeat) plan.runs = 1;
  if (flags.given()) plan.patience = 1e9;
  if (flags.warm_up.empty()) return plan;
  const auto bad = [&] {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--warmup: '{}' is neither a number of runs nor a time (5, 200ms, 2s)", flags.warm_up)};
  };
  if (const auto runs = parse_integer(flags.warm_up); runs.ok()) {
    if (*runs < 0 || *runs > kMostRuns) return bad();
    plan.warm_ups = static_cast<int>(*runs);
    plan.warm_up_seconds = 0;
    return plan;
  }
  const std::pair<const char*, double> units[] = {{"ms", 1e-3}, {"min", 60}, {"s", 1}};
  for (const auto& [unit, seconds] : units) {
    if (!flags.warm_up.ends_with(unit)) continue;
    const auto value = parse_double(flags.warm_up.substr(0, flags.warm_up.size() - std::string_view(unit).size()));
    if (!value.ok() || *value < 0 || *value * seconds > 1e6) return bad();
    plan.warm_up_seconds = *value * seconds;
    return plan;
  }
  return bad();
}

void RunTimes::count(const RunStatistics& statistics) {
  seconds_.push_back(statistics.seconds);
  if (statistics.device_seconds) device_seconds_.push_back(*statistics.device_seconds);
  count_steps(statistics);
}

void RunTimes::count_steps(const RunStatistics& statistics) {
  if (statistics.step_seconds.empty()) return;
  ++step_runs_;
  step_sums_.resize(statistics.step_seconds.size());
  for (std::size_t i = 0; i < step_sums_.size(); ++i) step_sums_[i] += statistics.step_seconds[i];
}

void RunTimes::add(const RunStatistics& statistics, bool first, std::int64_t images) {
  images_ = images;
  if (!first) return count(statistics);
  first_ = statistics.seconds;
  first_steps_ = statistics.step_seconds;
  step_sums_.clear();  // another session may have other steps
  step_runs_ = 0;
}

Result<void> RunTimes::measure(Session& session, std::span<const HostTensor> inputs, const TimingPlan& plan) {
  if (first_ > plan.patience) return {};
  const bool on_gpu =
      std::ranges::any_of(session.steps(), [](const NetworkStep& step) { return step.device != "cpu"; });
  seconds_.clear();
  device_seconds_.clear();
  step_sums_.clear();
  step_runs_ = warm_ups_ = 0;
  double start = monotonic_seconds() - first_;
  const auto passed = [&] { return monotonic_seconds() - start; };
  if (plan.warm_ups == 0 && plan.warm_up_seconds == 0) {
    count({.seconds = first_, .step_seconds = first_steps_});
  } else {
    for (warm_ups_ = 1; warm_ups_ < plan.warm_ups || passed() < plan.warm_up_seconds; ++warm_ups_) {
      CONVOY_CHECK(session.run(inputs));
    }
    start = monotonic_seconds();
  }
  const auto wanted = static_cast<std::size_t>(plan.runs);
  while (seconds_.empty() || passed() < plan.seconds || (seconds_.size() < wanted && passed() < plan.patience)) {
    RunStatistics statistics{.each_step = !on_gpu};
    CONVOY_CHECK(session.run(inputs, &statistics));
    count(statistics);
  }
  for (int i = 0; on_gpu && i < kStepRuns; ++i) {
    RunStatistics statistics;
    CONVOY_CHECK(session.run(inputs, &statistics));
    count_steps(statistics);
  }
  return {};
}

double RunTimes::quantile(double q) const {
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  return selection::quantile(sorted, q);
}

double RunTimes::device_median() const {
  std::vector<double> sorted = device_seconds_;
  std::sort(sorted.begin(), sorted.end());
  return selection::quantile(sorted, 0.5);
}

std::vector<double> RunTimes::step_seconds() const {
  if (step_runs_ == 0) return first_steps_;
  std::vector<double> mean = step_sums_;
  for (double& sum : mean) sum /= step_runs_;
  return mean;
}

std::string RunTimes::text() const {
  const std::string rate = report::per_second(images_per_second(), "image");
  if (first_only()) {
    return fmt::format("first run {}, {} (caches were cold: --duration 1 times it warm)", report::seconds(first_),
                       rate);
  }
  const std::string there =
      device_seconds_.empty() ? ""
                              : fmt::format("; {} of it on the GPU, without copies", report::seconds(device_median()));
  if (seconds_.size() == 1)
    return fmt::format("{} (one run, {} before it), {}{}", report::seconds(median()), warm_ups_, rate, there);
  return fmt::format("{} (median of {} runs; p10 {}, p90 {}), {}{}", report::seconds(median()), seconds_.size(),
                     report::seconds(quantile(0.1)), report::seconds(quantile(0.9)), rate, there);
}

Json RunTimes::json() const {
  return {{"seconds", median()},
          {"timing", first_only() ? "first run" : "warm"},
          {"runs", first_only() ? 1 : seconds_.size()},
          {"p10_seconds", first_only() ? Json(nullptr) : Json(quantile(0.1))},
          {"p90_seconds", first_only() ? Json(nullptr) : Json(quantile(0.9))},
          {"device_seconds", device_seconds_.empty() ? Json(nullptr) : Json(device_median())},
          {"warm_up_runs", warm_ups_},
          {"first_run_seconds", first_},
          {"images_per_run", images_},
          {"images_per_second", images_per_second()}};
}

}  // namespace convoy::cli
