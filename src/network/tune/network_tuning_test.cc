// Tuning in a network: sessions that switch candidates, what is stored, what choices follow.
#include "convoy/network_tuning.h"

#include <algorithm>
#include <map>

#include "base/testing/surroundings.h"
#include "network/testing/small_network.h"
#include "network/tune/placement.h"
#include "select/testing/map_store.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

using testing_support::MapStore;

class NetworkTuningTest : public SmallNetworkTest {
 protected:
  void SetUp() override {
    SmallNetworkTest::SetUp();
    options_.selection.store = &store_;
    auto convolutions = network_->convolutions(descs_, options_);
    ASSERT_TRUE(convolutions.ok());
    convolutions_ = std::move(*convolutions);
  }

  NetworkTuning tune() {
    auto tuning = tune_in_network(*network_, convolutions_, inputs_, options_);
    EXPECT_TRUE(tuning.ok()) << tuning.error().message;
    return *tuning;
  }
  std::vector<std::string> chosen() {
    std::vector<std::string> names;
    const auto session = network_->prepare(descs_, options_);
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind == "conv") names.push_back(step.selection.reason() + " " + print(step.selection.candidate));
    }
    return names;
  }

  MapStore store_;
  std::vector<NetworkConvolution> convolutions_;
};

TEST_F(NetworkTuningTest, PlacementsOfOneNetworkAgree) {
  options_.selection.store = nullptr;
  std::vector<ConvolutionCandidates> candidates;
  for (const NetworkConvolution& convolution : convolutions_) {
    candidates.push_back({convolution.problem, {{"cpu.direct", {}}, {"reference", {}}}});
  }
  const auto one = Placement::make(*network_, inputs_, options_, candidates);
  ASSERT_TRUE(one.ok()) << one.error().message;
  for (ConvolutionCandidates& each : candidates) std::reverse(each.candidates.begin(), each.candidates.end());
  const auto other = Placement::make(*network_, inputs_, options_, candidates);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_GT(one->preparing_seconds(), 0);
  std::size_t steps = 0;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    EXPECT_EQ(one->steps(c), other->steps(c));
    steps += one->steps(c).size();
  }
  EXPECT_EQ(steps, 26U);  // its convolutions
  // The same candidate by both orders: the oracle takes several times as long as the other.
  const auto seconds = [&](const Result<Placement>& placement, std::size_t index) {
    const std::vector<std::size_t> lineup(candidates.size(), index);
    const auto statistics = placement->run(lineup);
    EXPECT_TRUE(statistics.ok());
    double sum = 0;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      for (const std::size_t step : placement->steps(c)) sum += statistics->step_seconds[step];
    }
    return sum;
  };
  EXPECT_GT(seconds(one, 1), 2 * seconds(one, 0));
  EXPECT_GT(seconds(other, 0), 2 * seconds(other, 1));
}

TEST_F(NetworkTuningTest, ASessionSwitchesBetweenCandidates) {
  options_.selection.store = nullptr;
  std::vector<ConvolutionCandidates> candidates;
  for (const NetworkConvolution& convolution : convolutions_) {
    candidates.push_back({convolution.problem, {{"cpu.direct", {}}, {"reference", {}}}});
  }
  auto session = network_->prepare_switchable(descs_, options_, candidates);
  ASSERT_TRUE(session.ok()) << session.error().message;
  RunStatistics direct, reference;
  const auto first = (*session)->run(inputs_, &direct);
  ASSERT_TRUE(first.ok());
  for (const NetworkStep& step : (*session)->steps()) {
    if (step.kind != "conv") continue;
    EXPECT_TRUE(step.implementation.starts_with("cpu.direct")) << step.implementation;
    EXPECT_EQ(step.selection.by, SelectedBy::given);
  }
  (*session)->use(1, 1);
  const auto second = (*session)->run(inputs_, &reference);
  ASSERT_TRUE(second.ok());
  expect_close((*second)[0], (*first)[0], 1e-4);
  // The oracle's plain loops take many times as long, in the steps of that problem alone.
  for (std::size_t s = 0; s < direct.step_seconds.size(); ++s) {
    const NetworkStep& step = (*session)->steps()[s];
    if (step.kind == "conv" && step.problem == candidates[1].problem) {
      EXPECT_GT(reference.step_seconds[s], 3 * direct.step_seconds[s]);
    }
  }
  (*session)->use(1, 0);
  EXPECT_TRUE((*session)->run(inputs_).ok());
}

TEST_F(NetworkTuningTest, WhatIsFoundIsStoredAndFollowedAndNotMeasuredAgain) {
  const std::vector<std::string> heuristic = chosen();
  const NetworkTuning first = tune();
  EXPECT_FALSE(first.partial);
  ASSERT_EQ(first.convolutions.size(), convolutions_.size());
  int compared = 0;
  for (const TunedConvolution& tuned : first.convolutions) {
    ASSERT_FALSE(tuned.alone.empty());
    EXPECT_GT(tuned.measured, 0);
    if (tuned.in_network.empty()) continue;
    ++compared;
    EXPECT_EQ(tuned.in_network[0].candidate, tuned.alone[0].candidate);
    EXPECT_EQ(std::count_if(tuned.in_network.begin(), tuned.in_network.end(),
                            [](const Measurement& m) { return m.state == MeasurementState::complete; }),
              1);
  }
  EXPECT_GT(compared, 0);
  const std::vector<std::string> after = chosen();
  ASSERT_EQ(after.size(), heuristic.size());
  EXPECT_TRUE(std::any_of(after.begin(), after.end(), [](const auto& name) { return name.starts_with("network "); }));

  const int stores = store_.stores;
  const NetworkTuning second = tune();
  for (const TunedConvolution& tuned : second.convolutions) EXPECT_EQ(tuned.measured, 0);
  EXPECT_EQ(store_.stores, stores);
  EXPECT_FALSE(second.partial);
  EXPECT_EQ(chosen(), after);
}

TEST_F(NetworkTuningTest, TheOneThatWonInANetworkIsChosen) {
  tune();
  for (auto& [key, rows] : store_.rows) {
    if (key.caches != CacheState::network || rows.size() < 2) continue;
    for (auto& [name, row] : rows) row.state = MeasurementState::cut_off;
    rows.rbegin()->second.state = MeasurementState::complete;
    rows.rbegin()->second.median_seconds = 1;  // the verdict counts, not the time
    const auto problem = parse_problem(key.problem);
    static const float weights = 0;
    PlanRequest request;
    request.threads = 1;
    request.cpu = options_.cpu;
    request.constant_weights = &weights;
    auto selection = select(*problem, all_engines(), options_.selection, request);
    ASSERT_TRUE(selection.ok());
    EXPECT_EQ(selection->by, SelectedBy::network_hint);
    EXPECT_EQ(print(selection->candidate), rows.rbegin()->first);
    options_.selection.caches = CacheState::all_cold;  // not as in a network
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_NE(selection->by, SelectedBy::network_hint);
    options_.selection.caches = CacheState::warm;
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::heuristic);
    options_.selection.in_network = true;  // which is small
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::network_hint);
    rows.clear();
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::stored) << "with cold caches";
    return;
  }
  FAIL() << "no problem was compared";
}

TEST_F(NetworkTuningTest, ABudgetEndsItAndAnotherCallGoesOn) {
  options_.selection.budget_seconds = 1e-9;
  const NetworkTuning none = tune();
  EXPECT_TRUE(none.partial);
  ASSERT_EQ(none.remarks.size(), 1U);
  EXPECT_NE(none.remarks[0].find("timed alone only"), std::string::npos) << none.remarks[0];
  EXPECT_EQ(store_.stores, 1) << "the first convolution gets an answer";
  options_.selection.budget_seconds = 0.05;
  const NetworkTuning first = tune();
  EXPECT_TRUE(first.partial);
  const std::atomic<bool> stop = true;
  options_.selection.stop = &stop;
  const int stores = store_.stores;
  EXPECT_TRUE(tune().partial);
  EXPECT_EQ(store_.stores, stores);
  options_.selection.stop = nullptr;
  options_.selection.budget_seconds = 0;
  EXPECT_FALSE(tune().partial);
  EXPECT_GT(store_.stores, stores);
}

TEST_F(NetworkTuningTest, WhatItCannotDoIsAnError) {
  options_.selection.caches = CacheState::warm;
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::unsupported);
  options_.selection.caches = CacheState::cold;
  options_.selection.objective = {.time = 1, .workspace = 1};
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::unsupported);
  options_.selection.store = nullptr;
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace convoy::network
