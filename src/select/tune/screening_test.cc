// Screening with fake engines: who is looked at, what is stored, when it ends.
#include "select/tune/screening.h"

#include <gtest/gtest.h>

#include <map>

#include "select/evidence.h"
#include "select/testing/fake_engine.h"
#include "select/testing/map_store.h"

namespace convoy::selection {
namespace {

using testing_support::FakeEngine;
using testing_support::MapStore;

class Screen : public ::testing::Test {
 protected:
  Screen() {
    problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1");
    request_.cpu = cpu_features();
    options_.store = &store_;
  }
  Screening run(const std::vector<const Engine*>& engines) {
    auto screening = screen(problem_, engines, options_, request_);
    EXPECT_TRUE(screening.ok()) << screening.error().message;
    return *screening;
  }
  static std::string names(const std::vector<Measurement>& measurements) {
    std::string text;
    for (const Measurement& m : measurements) text += print(m.candidate) + " ";
    return text;
  }

  MapStore store_;
  ConvProblem problem_;
  PlanRequest request_;
  SelectionOptions options_;
  FakeEngine favourite_{"fake.favourite", {.predicted = 1e-4, .sleep_seconds = 0.01, .sleep_with_tile_2 = 0.015}};
  FakeEngine quick_{"fake.quick", {.predicted = 1.9e-4}};
  FakeEngine unlikely_{"fake.unlikely", {.predicted = 3e-4}};
  FakeEngine wrong_{"fake.wrong", {.predicted = 0.9e-4, .wrong = true}};
};

TEST_F(Screen, TheHeuristicsChoiceIsFirstThenTheFastestOfTheLikely) {
  FakeEngine slow("fake.slow", {.predicted = 1.1e-4, .sleep_seconds = 0.02, .sleep_with_tile_2 = 0.03});
  const Screening screening = run({&unlikely_, &slow, &quick_, &favourite_});
  // Of fake.quick other knob values are predicted to be too slow.
  EXPECT_EQ(names(screening.right),
            "fake.favourite{tile=4} fake.quick{tile=4} fake.favourite{tile=2} fake.slow{tile=4} fake.slow{tile=2} ");
  EXPECT_EQ(screening.measured, 5);
  EXPECT_FALSE(screening.partial);
  for (const Measurement& m : screening.right) EXPECT_EQ(m.state, MeasurementState::partial);
  options_.all_knobs = true;
  EXPECT_NE(names(run({&unlikely_, &slow, &quick_, &favourite_}).right).find("fake.unlikely"), std::string::npos);
}

// A candidate far above its prediction is looked at again, until it no longer is, or all looks agree.
TEST_F(Screen, WhatSeemsDisturbedIsLookedAtAgain) {
  std::atomic<int> disturbed = 6;
  const FakeEngine unlucky("fake.unlucky", {.predicted = 1e-3, .disturbed_runs = &disturbed});
  const FakeEngine slow("fake.slow", {.predicted = 1.1e-3, .sleep_seconds = 0.01});
  const Screening first = run({&unlucky, &slow});
  ASSERT_EQ(names(first.right).find("fake.unlucky{tile=4} fake.unlucky{tile=2} fake.slow{tile="), 0u);
  EXPECT_LE(disturbed, 0);
  EXPECT_LT(first.right[0].median_seconds, 0.01);
  EXPECT_GE(first.right[2].median_seconds, 0.01);
  EXPECT_GE(first.right[2].samples, kEnoughSamples) << "it does take that long";
  EXPECT_EQ(run({&unlucky, &slow}).measured, 0);
  auto& rows = store_.rows.begin()->second;
  for (auto& [name, m] : rows) m.median_seconds = 0.02, m.samples = 1;  // as an interrupted tune has left them
  rows.at("fake.unlucky{tile=4}").state = MeasurementState::complete;
  EXPECT_EQ(run({&unlucky, &slow}).measured, 3);
}

TEST_F(Screen, ASecondOneMeasuresNothing) {
  const std::vector<const Engine*> engines = {&quick_, &favourite_, &wrong_};
  const Screening first = run(engines);
  EXPECT_EQ(first.measured, 4);
  const Screening second = run(engines);
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(names(second.right), names(first.right));
  EXPECT_EQ(names(second.wrong), "fake.wrong{tile=4} fake.wrong{tile=2} ");
}

TEST_F(Screen, WhereTheHeuristicsChoiceIsWrongWhoWasPredictedNextIsFirst) {
  const Screening screening = run({&quick_, &favourite_, &wrong_});
  EXPECT_TRUE(names(screening.right).starts_with("fake.favourite{tile=4} fake.")) << names(screening.right);
  EXPECT_EQ(screening.wrong[0].failure->code, ErrorCode::wrong_result);
}

TEST_F(Screen, TheFilterHoldsAndChangesNothingOfWhatIsStored) {
  options_.all_knobs = true;
  run({&quick_, &favourite_});
  options_.filter.engines = "fake.quick";
  const Screening screening = run({&quick_, &favourite_});
  EXPECT_EQ(screening.measured, 0);
  EXPECT_EQ(screening.right.size(), 2u);
  for (const Measurement& m : screening.right) EXPECT_EQ(m.candidate.engine, "fake.quick");
  EXPECT_EQ(store_.rows.begin()->second.size(), 4u);
}

TEST_F(Screen, WithoutTimeItIsPartial) {
  options_.budget_seconds = -1;
  Screening screening = run({&quick_, &favourite_});
  EXPECT_TRUE(screening.partial);
  EXPECT_EQ(screening.measured, 0);
  options_.budget_seconds = 1e-9;
  screening = run({&quick_, &favourite_});
  EXPECT_TRUE(screening.partial);
  EXPECT_EQ(screening.measured, 1) << "a first answer";
  const std::atomic<bool> stop = true;
  options_.budget_seconds = 0;
  options_.stop = &stop;
  EXPECT_TRUE(run({&quick_, &favourite_}).partial);
}

TEST_F(Screen, ProgressEndsIt) {
  const auto screening = screen(problem_, std::vector<const Engine*>{&quick_, &favourite_}, options_, request_,
                                [](const Measurement&, int, int) { return false; });
  ASSERT_TRUE(screening.ok());
  EXPECT_EQ(names(screening->right), "fake.favourite{tile=4} ");
  EXPECT_TRUE(screening->partial);
}

}  // namespace
}  // namespace convoy::selection
