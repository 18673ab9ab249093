#include "select/tune/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/selection.h"
#include "select/testing/fake_engine.h"
#include "select/testing/map_store.h"

namespace convoy::selection {
namespace {

using testing_support::FakeEngine;
using testing_support::MapStore;

struct Taken {
  Slice slice;
  double at;
};

// Problems of the same kind: the likely candidates and the others take so long.
struct Work {
  double budget = 0, likely = 0, others = 0;
  double time = 0;
  std::vector<Taken> turns;
  std::map<std::size_t, double> spent;

  void run(const std::vector<double>& weights) {
    const auto done = measure_in_rounds(
        weights, [this] { return budget > 0 ? budget - time : std::numeric_limits<double>::infinity(); },
        [this](const Slice& slice) -> Result<SliceOutcome> {
          turns.push_back({slice, time});
          double& own = spent[slice.problem];
          const double most = (slice.likely_only ? likely : likely + others) - own;
          const double takes = slice.seconds == 0 ? most : std::clamp(slice.seconds, 0.0, most);
          own += takes;
          time += takes;
          return SliceOutcome{own >= likely + others, takes > 0};
        });
    EXPECT_TRUE(done.ok());
  }
};

TEST(Rounds, EveryProblemGetsItsLikelyCandidatesFirst) {
  Work work{.budget = 100, .likely = 1, .others = 50};
  work.run({1, 1, 1, 1});
  ASSERT_GE(work.turns.size(), 8U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(work.turns[i].slice.problem, i);
    EXPECT_TRUE(work.turns[i].slice.likely_only);
    EXPECT_FALSE(work.turns[4 + i].slice.likely_only);
  }
  EXPECT_DOUBLE_EQ(work.turns[0].slice.seconds, 25);
  EXPECT_DOUBLE_EQ(work.turns[3].slice.seconds, 97) << "what others did not need";
  EXPECT_DOUBLE_EQ(work.turns[4].slice.seconds, 24);
  EXPECT_NEAR(work.time, 100, 1);
}

TEST(Rounds, SharesGoByWeight) {
  Work work{.budget = 8, .likely = 100, .others = 100};
  work.run({1, 3});
  EXPECT_DOUBLE_EQ(work.turns[0].slice.seconds, 2);
  EXPECT_DOUBLE_EQ(work.turns[1].slice.seconds, 6);
}

TEST(Rounds, WithoutABudgetOrOthersThereIsOneRound) {
  Work free{.likely = 1, .others = 2};
  free.run({1, 1});
  ASSERT_EQ(free.turns.size(), 2U);
  EXPECT_FALSE(free.turns[0].slice.likely_only);
  EXPECT_EQ(free.turns[0].slice.seconds, 0);
  Work alone{.budget = 10, .likely = 1, .others = 2};
  alone.run({1});
  ASSERT_EQ(alone.turns.size(), 1U);
  EXPECT_FALSE(alone.turns[0].slice.likely_only);
}

TEST(Rounds, WhoComesAfterTheEndHearsOfIt) {
  Work work{.budget = 1, .likely = 1, .others = 0};
  work.time = 2;
  work.run({1, 1});
  ASSERT_EQ(work.turns.size(), 2U);
  EXPECT_GT(work.turns[0].slice.seconds, 0) << "one of them gets an answer";
  EXPECT_LT(work.turns[1].slice.seconds, 0);
}

TEST(Rounds, AnErrorEndsThem) {
  int turns = 0;
  const std::vector<double> weights = {1, 1};
  const auto done = measure_in_rounds(
      weights, [] { return 1.0; },
      [&](const Slice&) -> Result<SliceOutcome> {
        ++turns;
        return Error{ErrorCode::internal, "no"};
      });
  EXPECT_FALSE(done.ok());
  EXPECT_EQ(turns, 1);
}

// As `convoy bench LIST --budget` does: problems whose twelve engines are all predicted to be as fast.
TEST(Rounds, NoProblemGetsItsTenthCandidateBeforeAllHaveTheirLikelyOnes) {
  std::vector<std::unique_ptr<FakeEngine>> fakes;
  std::vector<const Engine*> engines;
  for (int i = 0; i < 12; ++i) {
    fakes.push_back(
        std::make_unique<FakeEngine>("fake.e" + std::to_string(i), FakeEngine::Behaviour{.predicted = 1e-5}));
    engines.push_back(fakes.back().get());
  }
  const std::vector<ConvProblem> problems = {*parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3"),
                                             *parse_problem("fprop:x=f32,1x4x8x8:w=f32,4x4x3x3"),
                                             *parse_problem("fprop:x=f32,1x4x7x7:w=f32,4x4x3x3")};
  MapStore store;
  std::vector<std::size_t> order;  // of first measurements
  std::map<std::string, int> seen;
  const std::vector<double> weights(problems.size(), 1);
  const auto done = measure_in_rounds(
      weights, [] { return 600.0; },
      [&](const Slice& slice) -> Result<SliceOutcome> {
        SelectionOptions options;
        options.mode = SelectionMode::measured;
        options.store = &store;
        options.likely_only = slice.likely_only;
        options.budget_seconds = slice.seconds;
        const std::size_t before = order.size();
        CONVOY_TRY(
            const Selection selection,
            select(problems[slice.problem], engines, options, PlanRequest{}, {}, [&](const Measurement& m, int, int) {
              const std::string name = std::to_string(slice.problem) + print(m.candidate);
              if (seen[name]++ == 0) order.push_back(slice.problem);
              return true;
            }));
        return SliceOutcome{!selection.partial, order.size() > before};
      });
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(order.size(), 36U) << "all of them in the end";
  std::vector<int> counts(problems.size(), 0);
  for (const std::size_t problem : order) {
    ++counts[problem];
    if (counts[problem] < 9) continue;
    for (const int count : counts) EXPECT_GE(count, 8);
  }
}

}  // namespace
}  // namespace convoy::selection
