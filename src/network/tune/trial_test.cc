// Trials on a machine that is made up: which challengers win, and what drift, disturbances and budgets do.
#include "network/tune/trial.h"

#include <gtest/gtest.h>

#include <random>

namespace convoy::network {
namespace {

// A network of steps that take factors[contest][candidate] milliseconds, a step a contest.
struct Machine {
  std::vector<std::vector<double>> factors;
  double noise = 0.03;
  double drift = 0;          // relative, a second
  double after_switch = 0;   // how much longer a run with other candidates than the last takes
  int disturbed_one_in = 0;  // of so many steps one takes ten times as long
  double now = 0;
  int runs = 0;
  std::vector<std::size_t> last = {};
  std::vector<std::vector<int>> ran = {};  // by contest and candidate
  std::mt19937 random{7};

  Result<RunStatistics> run(std::span<const std::size_t> lineup) {
    RunStatistics statistics;
    std::normal_distribution<double> normal(0, noise);
    const bool switched = !std::equal(lineup.begin(), lineup.end(), last.begin(), last.end());
    last.assign(lineup.begin(), lineup.end());
    ran.resize(factors.size(), std::vector<int>(16, 0));
    for (std::size_t c = 0; c < factors.size(); ++c) {
      double seconds = 1e-3 * factors[c][lineup[c]] * (1 + std::abs(normal(random))) * (1 + drift * now);
      if (switched) seconds *= 1 + after_switch;
      if (disturbed_one_in > 0 && random() % static_cast<unsigned>(disturbed_one_in) == 0) seconds *= 10;
      statistics.step_seconds.push_back(seconds);
      statistics.seconds += seconds;
      ++ran[c][lineup[c]];
    }
    ++runs;
    now += statistics.seconds;
    return statistics;
  }
};

std::vector<Contest> contests_of(const Machine& machine) {
  std::vector<Contest> contests;
  for (std::size_t c = 0; c < machine.factors.size(); ++c) contests.push_back({{c}, machine.factors[c].size() - 1});
  return contests;
}

TrialResult hold(Machine& machine, const std::vector<Contest>& contests, TrialOptions options = {}) {
  if (options.budget_seconds == 0) options.budget_seconds = 1e9;
  auto result = run_trial(
      contests, options, [&](std::span<const std::size_t> lineup) { return machine.run(lineup); },
      [&] { return machine.now; }, [] { return true; });
  EXPECT_TRUE(result.ok());
  return *result;
}

TEST(Trial, TheFasterWinsAndTheEqualDoesNot) {
  Machine machine{{{1, 0.9}, {1, 1}, {1, 1.1}, {1}}};
  const TrialResult result = hold(machine, contests_of(machine));
  EXPECT_TRUE(result.settled);
  EXPECT_EQ(result.duels[0][0].verdict, Verdict::faster);
  EXPECT_NEAR(result.duels[0][0].ratio.median, 0.9, 0.02);
  EXPECT_NE(result.duels[1][0].verdict, Verdict::faster);
  EXPECT_EQ(result.duels[2][0].verdict, Verdict::not_faster);
  EXPECT_TRUE(result.duels[3].empty());
  EXPECT_NEAR(result.reference[0].median, 1e-3, 1e-4);
}

TEST(Trial, StepsOfOneProblemAreAdded) {
  Machine machine{{{1, 0.5}, {1}, {1, 1.1}}};
  const auto run = [&](std::span<const std::size_t> lineup) {
    return machine.run(std::vector<std::size_t>{lineup[0], 0, lineup[0]});
  };
  const auto result = run_trial(
      std::vector<Contest>{{{0, 2}, 1}}, {.budget_seconds = 1e9}, run, [&] { return machine.now; },
      [] { return true; });
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->duels[0][0].ratio.median, 0.8, 0.03);
  EXPECT_NEAR(result->reference[0].median, 2e-3, 2e-4);
  EXPECT_LT(result->whole.median, 1);
}

TEST(Trial, NeitherDriftNorDisturbancesNorSwitchesDecide) {
  for (const double drift : {-0.2, 0.0, 0.5}) {
    for (const int one_in : {0, 10}) {
      Machine machine{{{1, 0.93, 1.07}, {1, 1.07, 0.93}, {1, 1.05, 1.04, 1.06}}, 0.03, drift, 0.5, one_in};
      const TrialResult result = hold(machine, contests_of(machine));
      const std::string where = std::to_string(drift) + " " + std::to_string(one_in);
      EXPECT_EQ(result.duels[0][0].verdict, Verdict::faster) << where;
      EXPECT_NE(result.duels[0][1].verdict, Verdict::faster) << where;
      EXPECT_NE(result.duels[1][0].verdict, Verdict::faster) << where;
      EXPECT_EQ(result.duels[1][1].verdict, Verdict::faster) << where;
      for (const Duel& duel : result.duels[2]) EXPECT_NE(duel.verdict, Verdict::faster) << where;
      EXPECT_NEAR(result.duels[0][0].ratio.median, 0.93, 0.03) << where;
    }
  }
}

TEST(Trial, WhoHasLostLeaves) {
  Machine machine{{{1, 2, 1.9, 0.97}}};
  const TrialResult result = hold(machine, contests_of(machine));
  EXPECT_TRUE(result.settled);
  EXPECT_EQ(machine.ran[0][1], 4);  // a lineup
  EXPECT_EQ(machine.ran[0][2], 4);
  EXPECT_GT(machine.ran[0][3], 4);
  EXPECT_EQ(result.duels[0][2].verdict, Verdict::faster);
}

TEST(Trial, TheFastestOfSeveralWins) {
  Machine machine{{{1, 0.9, 0.8, 0.85}}};
  const TrialResult result = hold(machine, contests_of(machine));
  EXPECT_EQ(result.duels[0][0].verdict, Verdict::not_faster);
  EXPECT_EQ(result.duels[0][1].verdict, Verdict::faster);
  EXPECT_EQ(result.duels[0][2].verdict, Verdict::not_faster);
}

TEST(Trial, WhatIsNotWorthItIsNotTimedForLong) {
  Machine machine{{{1000}, {1, 0.99}}};  // a thousandth of the network
  const TrialResult result = hold(machine, contests_of(machine));
  EXPECT_EQ(result.duels[1][0].verdict, Verdict::not_faster);
  EXPECT_LE(result.rounds, 4);
}

TEST(Trial, TheBudgetEndsItAndARoundCutShortDoesNotCount) {
  Machine machine{{{1, 0.99}}, 0.05};
  const TrialResult result = hold(machine, contests_of(machine), {.budget_seconds = 0.035});
  EXPECT_LE(machine.now, 0.036);
  EXPECT_FALSE(result.settled);
  EXPECT_EQ(result.duels[0][0].verdict, Verdict::open);
  EXPECT_EQ(result.duels[0][0].ratio.samples + result.duels[0][0].ratio.outliers, 3 * result.rounds);
  EXPECT_GT(result.rounds, 0);
}

TEST(Trial, WithoutTimeNothingIsKnown) {
  Machine machine{{{1, 0.5}}};
  const TrialResult result = hold(machine, contests_of(machine), {.budget_seconds = 0.0005});
  EXPECT_FALSE(result.settled);
  EXPECT_EQ(result.rounds, 0);
  EXPECT_EQ(result.duels[0][0].verdict, Verdict::open);
}

TEST(Trial, ItStopsWhereItIsTold) {
  Machine machine{{{1, 0.5}}};
  int left = 5;
  const auto result = run_trial(
      contests_of(machine), {.budget_seconds = 1e9},
      [&](std::span<const std::size_t> lineup) { return machine.run(lineup); }, [&] { return machine.now; },
      [&] { return left-- > 0; });
  ASSERT_TRUE(result.ok());
  EXPECT_LE(machine.runs, 5);
  EXPECT_FALSE(result->settled);
}

TEST(Trial, ARunThatFailsIsTheError) {
  const auto result = run_trial(
      std::vector<Contest>{{{0}, 1}}, {.budget_seconds = 1},
      [](std::span<const std::size_t>) -> Result<RunStatistics> {
        return Error{ErrorCode::internal, "broken"};
      },
      [] { return 0.0; }, [] { return true; });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "broken");
}

}  // namespace
}  // namespace convoy::network
