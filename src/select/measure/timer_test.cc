// The timer on synthetic clocks: time passes only when a body says so.
#include "select/measure/timer.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "select/measure/host_time.h"

namespace convoy::selection {
namespace {

struct FakeClock {
  double time = 0;
  double operator()() const { return time; }
};

TEST(Statistics, QuartilesOfKnownNumbers) {
  const std::vector<double> samples = {4, 1, 3, 2, 5};
  const Summary summary = summarize(samples);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.first_quartile, 2);
  EXPECT_DOUBLE_EQ(summary.third_quartile, 4);
  EXPECT_DOUBLE_EQ(summary.spread(), 2.0 / 3);
  EXPECT_EQ(summarize({}).samples, 0);
}

TEST(Statistics, FarOutSamplesAreLeftOut) {
  const std::vector<double> samples = {1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 1.1, 9.0};
  const Summary summary = summarize(samples);
  EXPECT_EQ(summary.samples, 7);
  EXPECT_EQ(summary.outliers, 1);
  EXPECT_DOUBLE_EQ(summary.median, 1.1);
  // Q3 + 3 IQR = 5 + 3 * 3 = 14 is not beyond itself, and low samples always count.
  const std::vector<double> wide = {-1000, 2, 2, 2, 5, 5, 14};
  EXPECT_EQ(summarize(wide).outliers, 0);
}

struct FakeWork {
  FakeClock clock;
  std::vector<Contestant> contestants;
  void add(std::function<double()> seconds) {
    contestants.push_back({.body = [this, seconds]() -> Result<void> {
                             clock.time += seconds();
                             return {};
                           },
                           .prepare = {}});
  }
  std::vector<Timing> time(const TimingOptions& options = {}) { return time_interleaved(contestants, options, clock); }
};

TEST(Timer, SamplesAreTakenAgainWhileTheMachineIsSlowedDown) {
  FakeWork work;
  int executions = 0;
  bool slow = false;
  work.add([&] {
    slow = executions++ % 3 != 0;  // two thirds of the time
    return slow ? 0.002 : 0.001;
  });
  TimingOptions options;
  options.at_full_speed = [&](bool) { return !slow; };
  const Timing timing = work.time(options)[0];
  EXPECT_NEAR(timing.summary.median, 0.001, 1e-12);
  EXPECT_NEAR(timing.summary.spread(), 0, 1e-9);
}

TEST(Timer, ThereIsAnEndToTakingSamplesAgain) {
  FakeWork work;
  int executions = 0;
  work.add([&] {
    ++executions;
    return 0.001;
  });
  TimingOptions options;
  options.at_full_speed = [](bool) { return false; };
  options.budget_seconds = 1e3;
  EXPECT_EQ(work.time(options)[0].summary.samples, options.min_samples);
  EXPECT_LT(executions, options.min_samples + options.warm_ups + 30);
}

TEST(Timer, EqualRunsGiveEqualTimes) {
  FakeWork work;
  for (int i = 0; i < 3; ++i) work.add([] { return 0.001; });
  for (const Timing& timing : work.time()) {
    EXPECT_NEAR(timing.summary.median, 0.001, 1e-12);
    EXPECT_NEAR(timing.summary.spread(), 0, 1e-9);
    EXPECT_EQ(timing.summary.samples, TimingOptions{}.min_samples);
    EXPECT_TRUE(timing.settled);
  }
}

TEST(Timer, EqualRunsUnderNoiseAreWithinTheUncertainty) {
  FakeWork work;
  std::uint64_t state = 1;
  const auto noise = [&state] {  // 0 to 10%
    state = state * 6364136223846793005u + 1442695040888963407u;
    return 0.1 * static_cast<double>(state >> 40) / (1 << 24);
  };
  for (int i = 0; i < 4; ++i) work.add([&noise] { return 0.001 * (1 + noise()); });
  const auto timings = work.time({.budget_seconds = 100});
  for (const Timing& timing : timings) {
    EXPECT_NEAR(timing.summary.median / timings[0].summary.median, 1, 0.04);
    EXPECT_EQ(timing.summary.samples + timing.summary.outliers,
              timings[0].summary.samples + timings[0].summary.outliers);
  }
}

TEST(Timer, PreparationIsNotTimed) {
  FakeClock clock;
  const std::vector<Contestant> contestants = {{.body = [&]() -> Result<void> {
                                                  clock.time += 0.001;
                                                  return {};
                                                },
                                                .prepare = [&] { clock.time += 1; }}};
  TimingOptions options;
  options.budget_seconds = 1000;
  EXPECT_NEAR(time_interleaved(contestants, options, clock)[0].summary.median, 0.001, 1e-9);
}

// The machine slows down steadily, to a third of its speed or more. Each contestant is 5% faster than the one before
// it; measured one after the other, the first would win.
TEST(Timer, DriftDoesNotChangeTheRanking) {
  for (const double direction : {1.0, -1.0}) {
    FakeWork work;
    const auto speed = [&work, direction] {
      return direction > 0 ? 1 + work.clock.time / 0.1 : 1 / (1 + work.clock.time / 0.05);
    };
    for (int i = 0; i < 4; ++i) work.add([speed, i] { return 0.001 * (1 - 0.05 * i) * speed(); });
    const auto timings = work.time({.budget_seconds = 0.5});
    for (std::size_t i = 1; i < timings.size(); ++i) {
      EXPECT_LT(timings[i].summary.median, timings[i - 1].summary.median) << i << " direction " << direction;
    }
  }
}

// Whoever leaves early has samples of the early, fast machine only; they must not beat those who stayed.
TEST(Timer, LeavingEarlyOnAMachineThatSlowsDownIsNoAdvantage) {
  FakeWork work;
  const auto slowdown = [&work] { return 1 + work.clock.time / 0.2; };
  int run = 0;
  work.add([&] { return 0.010 * slowdown() * (++run % 2 == 0 ? 1.1 : 1.0); });  // noise keeps the race going
  work.add([&] { return 0.016 * slowdown(); });
  work.add([&] { return 0.080 * slowdown(); });
  const auto timings = work.time({.budget_seconds = 500});
  EXPECT_GT(timings[0].summary.samples, 2 * timings[1].summary.samples);
  EXPECT_EQ(timings[2].summary.samples, 2);
  EXPECT_FALSE(timings[2].settled);
  EXPECT_LT(timings[0].summary.median, timings[1].summary.median);
  EXPECT_LT(timings[1].summary.median, timings[2].summary.median);
  EXPECT_NEAR(timings[1].summary.median / timings[0].summary.median, 1.6 / 1.05, 0.15);
}

TEST(Timer, OutliersDoNotDecide) {
  for (const double outlier : {0.1, 0.0}) {  // a disturbed run, and a clock that stood still
    FakeWork work;
    int fast = 0, slow = 0;
    work.add([&] { return ++fast % 5 == 0 && outlier > 0 ? outlier : 0.0010; });
    work.add([&] { return ++slow % 5 == 0 && outlier == 0 ? outlier : 0.0011; });
    const auto timings = work.time({.budget_seconds = 100});
    EXPECT_LT(timings[0].summary.median, timings[1].summary.median) << outlier;
    EXPECT_GE(timings[0].summary.samples, 4);
  }
}

TEST(Timer, HopelessContestantsAreNotSampledAgain) {
  for (const double longer : {1.0, 9.0}) {  // than what may be a disturbance
    FakeWork work;
    int runs = 0;
    work.add([&] { return 0.001 * longer * (runs % 2 == 0 ? 1 : 1.1); });
    work.add([&] { return ++runs, 0.01 * longer; });
    const auto timings = work.time({.budget_seconds = 100});
    EXPECT_EQ(runs, TimingOptions{}.warm_ups + (longer > 1 ? 2 : TimingOptions{}.min_samples));
    EXPECT_FALSE(timings[1].settled);
    EXPECT_TRUE(timings[0].settled);
  }
}

// Two rounds that are disturbed throw nobody out.
TEST(Timer, WhoIsDisturbedTwiceMayWin) {
  FakeWork work;
  int runs = 0;
  work.add([] { return 0.001; });
  work.add([&] { return ++runs <= TimingOptions{}.warm_ups + 2 ? 0.01 : 0.0005; });
  const auto timings = work.time({.budget_seconds = 100});
  EXPECT_GE(timings[1].summary.samples, TimingOptions{}.min_samples);
  EXPECT_NEAR(timings[1].summary.median, 0.0005, 1e-12);
}

TEST(Timer, ShortBodiesAreRepeatedWithinASample) {
  FakeWork work;
  int runs = 0;
  work.add([&] { return ++runs, 1e-6; });
  const Summary summary = work.time()[0].summary;
  EXPECT_NEAR(summary.median, 1e-6, 1e-12);
  EXPECT_GE(runs, 20 * summary.samples);
}

TEST(Timer, NoSampleIsStartedThatWouldEndAfterTheBudget) {
  FakeWork work;
  work.add([] { return 10.0; });
  work.add([] { return 20.0; });
  const auto timings = work.time({.budget_seconds = 85});  // 30 warming up, 30 + 20, and 10 more would be too much
  EXPECT_LE(work.clock.time, 85);
  EXPECT_EQ(timings[0].summary.samples, 1);
  EXPECT_EQ(timings[1].summary.samples, 1);
  EXPECT_FALSE(timings[0].settled);
  FakeWork none;
  none.add([] { return 10.0; });
  EXPECT_EQ(none.time({.budget_seconds = 5})[0].summary.samples, 0);
  EXPECT_LE(none.clock.time, 10);
}

// Failing is quick: its times must not count, neither those before nor those after.
TEST(Timer, AnExecutionThatFailsEndsItsContestantAndNoOther) {
  for (const int good_runs : {0, 1, 2, 4, 6}) {
    FakeWork work;
    int runs = 0;
    work.contestants.push_back({.body = [&]() -> Result<void> {
      work.clock.time += 1e-4;
      if (++runs > good_runs) return Error{ErrorCode::internal, "out of luck"};
      return {};
    }});
    work.add([] { return 0.001; });
    const auto timings = work.time();
    ASSERT_TRUE(timings[0].failure.has_value()) << good_runs;
    EXPECT_EQ(timings[0].failure->message, "out of luck");
    EXPECT_EQ(timings[0].summary.samples, 0);
    EXPECT_EQ(runs, good_runs + 1) << "it was run on";
    EXPECT_FALSE(timings[1].failure.has_value());
    EXPECT_TRUE(timings[1].settled);
    EXPECT_NEAR(timings[1].summary.median, 0.001, 1e-12);
  }
}

TEST(Timer, WhereAllFailThereIsNoTime) {
  int runs = 0;
  const Contestant fails{.sample = [&]() -> Result<double> {
    ++runs;
    return Error{ErrorCode::internal, "out of luck"};
  }};
  FakeClock clock;
  const auto timings = time_interleaved(std::vector{fails, fails}, {}, clock);
  EXPECT_TRUE(timings[0].failure.has_value() && timings[1].failure.has_value());
  EXPECT_EQ(runs, 2);
}

TEST(Timer, CanBeInterruptedBetweenSamples) {
  FakeWork work;
  for (int i = 0; i < 2; ++i) work.add([] { return 0.001; });
  int asked = 0;
  const auto timings =
      time_interleaved(work.contestants, {}, work.clock, [&] { return ++asked <= 4 + 2 + 1; });  // in the second round
  EXPECT_EQ(timings[0].summary.samples, 1);
  EXPECT_EQ(timings[1].summary.samples, 1);
  EXPECT_FALSE(timings[0].settled);
}

// A hundred launches for one convolution keep the host of a program for longer than they keep the GPU.
TEST(HostTime, CountsWhereItIsLongerThanTheDevicesAndLong) {
  EXPECT_EQ(as_a_program_pays(200e-6, 450e-6), 450e-6);
  EXPECT_EQ(as_a_program_pays(370e-6, 60e-6), 370e-6) << "the host is ahead";
  EXPECT_EQ(as_a_program_pays(5e-6, 30e-6), 5e-6) << "any small convolution";
}

}  // namespace
}  // namespace convoy::selection
