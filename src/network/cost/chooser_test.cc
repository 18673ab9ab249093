// How a network's convolutions share a measuring budget.
#include "network/cost/chooser.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "select/testing/fake_engine.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

using testing_support::FakeEngine;

// Which problem each first measurement of a candidate was of.
class OrderStore final : public MeasurementStore {
 public:
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override { return rows_.find(key); }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    if (seen_.insert(key.problem + print(measurement.candidate)).second) order.push_back(key.problem);
    return rows_.store(key, measurement);
  }
  std::vector<std::string> order;

 private:
  selection::RoundStore rows_;
  std::set<std::string> seen_;
};

class ChooserTest : public ::testing::Test {
 protected:
  ChooserTest() {
    options_.threads = 1;
    options_.cpu = cpu_features();
    options_.selection.mode = SelectionMode::measured;
    options_.selection.store = &store_;
    for (int i = 0; i < 12; ++i) {
      fakes_.push_back(
          std::make_unique<FakeEngine>("fake.e" + std::to_string(i), FakeEngine::Behaviour{.predicted = 1e-5}));
      engines_.push_back(fakes_.back().get());
    }
  }

  // As prepare does: all are announced, then each is asked for.
  std::vector<Selection> choose() {
    Chooser chooser(options_, {}, {}, engines_);
    for (const ConvProblem& problem : problems_) chooser.announce({.problem = problem});
    std::vector<Selection> chosen;
    for (const ConvProblem& problem : problems_) {
      const auto selection = chooser.choose({.problem = problem});
      EXPECT_TRUE(selection.ok()) << selection.error().message;
      if (selection.ok()) chosen.push_back(*selection);
    }
    return chosen;
  }

  OrderStore store_;
  NetworkOptions options_;
  std::vector<std::unique_ptr<FakeEngine>> fakes_;
  std::vector<const Engine*> engines_;
  const std::vector<ConvProblem> problems_ = {*parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3"),
                                              *parse_problem("fprop:x=f32,1x4x8x8:w=f32,4x4x3x3"),
                                              *parse_problem("fprop:x=f32,1x4x7x7:w=f32,4x4x3x3")};
};

TEST_F(ChooserTest, EveryConvolutionGetsItsLikelyCandidatesBeforeAnyGetsItsOthers) {
  options_.selection.budget_seconds = 600;
  const std::vector<Selection> chosen = choose();
  ASSERT_EQ(chosen.size(), problems_.size());
  for (const Selection& selection : chosen) {
    EXPECT_EQ(selection.measurements.size(), 12U);
    EXPECT_FALSE(selection.partial);
  }
  EXPECT_EQ(store_.order.size(), 36U);
  std::map<std::string, int> counts;
  for (const std::string& problem : store_.order) {
    if (++counts[problem] < 9) continue;
    for (const ConvProblem& other : problems_) EXPECT_GE(counts[print(other)], 8);
  }
}

TEST_F(ChooserTest, ASpentBudgetStillMeasuresOneCandidate) {
  options_.selection.budget_seconds = 1e-9;
  const std::vector<Selection> chosen = choose();
  ASSERT_EQ(chosen.size(), problems_.size());
  EXPECT_EQ(store_.order.size(), 1U);
  EXPECT_EQ(chosen[0].by, SelectedBy::measured);
  EXPECT_EQ(chosen[1].by, SelectedBy::heuristic);
}

TEST_F(ChooserTest, WhatWasNotAnnouncedIsMeasuredWithWhatIsLeft) {
  options_.selection.budget_seconds = 600;
  Chooser chooser(options_, {}, {}, engines_);
  const auto chosen = chooser.choose({.problem = problems_[0]});
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  EXPECT_EQ(chosen->measurements.size(), 12U);
}

}  // namespace
}  // namespace convoy::network
