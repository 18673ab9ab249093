// The timer on synthetic clocks: time passes only when a body says so.
#include "select/measure/timer.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(Timer, EqualRunsGiveEqualTimes) {
  FakeClock clock;
  std::vector<Contestant> contestants(3);
  for (Contestant& contestant : contestants) contestant.body = [&] { clock.time += 0.001; };
  const auto summaries = time_interleaved(contestants, {}, clock);
  for (const Summary& summary : summaries) {
    EXPECT_NEAR(summary.median, 0.001, 1e-12);
    EXPECT_NEAR(summary.spread(), 0, 1e-9);
    EXPECT_EQ(summary.samples, TimingOptions{}.min_samples);
  }
}

TEST(Timer, PreparationIsNotTimed) {
  FakeClock clock;
  const std::vector<Contestant> contestants = {
      {.body = [&] { clock.time += 0.001; }, .prepare = [&] { clock.time += 1; }}};
  TimingOptions options;
  options.budget_seconds = 1000;
  EXPECT_NEAR(time_interleaved(contestants, options, clock)[0].median, 0.001, 1e-9);
}

TEST(Timer, DriftDoesNotChangeTheRanking) {
  // The machine slows down steadily to a third of its speed; the second contestant is 5% faster throughout. Measured
  // one after the other, the first would win.
  FakeClock clock;
  const auto slowdown = [&] { return 1 + clock.time / 0.1; };
  const std::vector<Contestant> contestants = {{.body = [&] { clock.time += 0.00100 * slowdown(); }, .prepare = {}},
                                               {.body = [&] { clock.time += 0.00095 * slowdown(); }, .prepare = {}}};
  TimingOptions options;
  options.budget_seconds = 0.2;
  const auto summaries = time_interleaved(contestants, options, clock);
  EXPECT_LT(summaries[1].median, summaries[0].median);
  EXPECT_EQ(summaries[0].samples, summaries[1].samples);
}

TEST(Timer, OutliersDoNotDecide) {
  FakeClock clock;
  int run = 0;
  const std::vector<Contestant> contestants = {
      {.body = [&] { clock.time += ++run % 5 == 0 ? 0.1 : 0.0010; }, .prepare = {}},  // every fifth run is disturbed
      {.body = [&] { clock.time += 0.0011; }, .prepare = {}}};
  TimingOptions options;
  options.budget_seconds = 100;
  const auto summaries = time_interleaved(contestants, options, clock);
  EXPECT_LT(summaries[0].median, summaries[1].median);
}

TEST(Timer, ShortBodiesAreRepeatedWithinASample) {
  FakeClock clock;
  int runs = 0;
  const std::vector<Contestant> contestants = {{.body = [&] { clock.time += 1e-6, ++runs; }, .prepare = {}}};
  const auto summaries = time_interleaved(contestants, {}, clock);
  EXPECT_NEAR(summaries[0].median, 1e-6, 1e-12);
  EXPECT_GE(runs, 20 * summaries[0].samples);
}

TEST(Timer, BudgetEndsItAfterAtLeastOneRound) {
  FakeClock clock;
  const std::vector<Contestant> contestants = {{.body = [&] { clock.time += 10; }, .prepare = {}},
                                               {.body = [&] { clock.time += 20; }, .prepare = {}}};
  const auto summaries = time_interleaved(contestants, {}, clock);
  EXPECT_EQ(summaries[0].samples, 1);
  EXPECT_EQ(summaries[1].samples, 1);
}

}  // namespace
}  // namespace convoy::selection
