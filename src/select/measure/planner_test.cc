// Plans made beside measuring, with fake engines.
#include "select/measure/planner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/clock.h"
#include "select/testing/fake_engine.h"

namespace convoy::selection {
namespace {

using testing_support::FakeEngine;

class PlannerTest : public ::testing::Test {
 protected:
  ConvProblem problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1");
  PlanRequest request_{.cpu = cpu_features()};
};

TEST_F(PlannerTest, GivesTheFirstThatIsReady) {
  const FakeEngine slow("fake.slow", {.plan_seconds = 0.3}), quick("fake.quick", {}),
      broken("fake.broken", {.plan_fails = true});
  const std::vector<const Engine*> engines = {&slow, &quick, &broken};
  Planner planner(2);
  const auto batch =
      planner.start(problem_, {{"fake.slow", {}}, {"fake.quick", {}}, {"fake.broken", {}}}, engines, request_);
  const auto first = batch->next(), second = batch->next(), third = batch->next();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(print(first->measurement.candidate), "fake.quick{tile=4}") << "with its knobs";
  EXPECT_NE(first->plan, nullptr);
  EXPECT_EQ(second->measurement.candidate.engine, "fake.broken");
  EXPECT_EQ(second->plan, nullptr);
  EXPECT_TRUE(second->measurement.failure && second->measurement.state == MeasurementState::complete);
  EXPECT_EQ(third->measurement.candidate.engine, "fake.slow");
  EXPECT_FALSE(batch->next()) << "all were taken";
}

TEST_F(PlannerTest, MakesTheNextProblemsPlansMeanwhile) {
  std::atomic<int> plans = 0;
  const FakeEngine engine("fake.engine", {.plans = &plans});
  const std::vector<const Engine*> engines = {&engine};
  Planner planner(1);
  const auto one = planner.start(problem_, {{"fake.engine", {}}}, engines, request_);
  const auto other = planner.start(problem_, {{"fake.engine", {}}, {"fake.engine", {{"tile", 2}}}}, engines, request_);
  for (const double start = monotonic_seconds(); plans < 3 && monotonic_seconds() - start < 10;)
    std::this_thread::yield();
  EXPECT_EQ(plans, 3) << "though nobody has asked for one";
  EXPECT_TRUE(one->next() && !one->next());
  EXPECT_TRUE(other->next() && other->next() && !other->next());
}

TEST_F(PlannerTest, WhatNobodyWaitsForAnyMoreIsNotBegun) {
  std::atomic<int> plans = 0;
  const FakeEngine engine("fake.engine", {.tiles = 50, .plans = &plans, .plan_seconds = 0.01});
  const std::vector<const Engine*> engines = {&engine};
  std::vector<Candidate> many;
  for (std::int64_t tile = 5; tile < 50; ++tile) many.push_back({"fake.engine", {{"tile", tile}}});
  Planner planner(1);
  auto batch = planner.start(problem_, many, engines, request_);
  ASSERT_TRUE(batch->next());
  batch.reset();
  const int made = plans;
  EXPECT_LT(made, 20);
  const auto later = planner.start(problem_, {{"fake.engine", {}}}, engines, request_);
  EXPECT_TRUE(later->next());
  EXPECT_EQ(plans, made + 1);
}

// Each keeps memory on the device.
TEST_F(PlannerTest, IsNotMoreThanSixtyFourPlansAhead) {
  std::atomic<int> plans = 0;
  const FakeEngine engine("fake.engine", {.tiles = 90, .plans = &plans});
  const std::vector<const Engine*> engines = {&engine};
  std::vector<Candidate> many;
  for (std::int64_t tile = 5; tile < 90; ++tile) many.push_back({"fake.engine", {{"tile", tile}}});
  Planner planner(2);
  const auto batch = planner.start(problem_, many, engines, request_);
  for (const double start = monotonic_seconds(); plans < 64 && monotonic_seconds() - start < 10;)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(plans, 64);
  int taken = 0;
  while (batch->next()) ++taken;
  EXPECT_EQ(taken, 85);
}

}  // namespace
}  // namespace convoy::selection
