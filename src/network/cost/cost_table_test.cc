// Costs, and what tells one convolution's answers from another's.
#include "network/cost/cost_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <unordered_map>

#include "network/cost/chooser.h"
#include "select/measure/step_measurement.h"
#include "select/testing/fake_engine.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

using testing_support::FakeEngine;

ConvQuery some_query() { return {.problem = *parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3")}; }

TEST(ConvQuery, EveryFieldTellsThemApart) {
  const float some = 0, other = 0;
  const std::vector<std::function<void(ConvQuery&)>> changes = {
      [](ConvQuery& query) { query.problem.x.dims[0] = 2; },
      [](ConvQuery& query) { query.problem.math = MathMode::reduced; },
      [](ConvQuery& query) { query.node = "conv1"; },
      [&](ConvQuery& query) { query.weights = &some; },
      [](ConvQuery& query) { query.threads = Threads::one; },
      [](ConvQuery& query) { query.place = 1; },
  };
  std::unordered_map<ConvQuery, int, HashOfConvQuery> known{{some_query(), -1}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ConvQuery query = some_query();
    changes[i](query);
    EXPECT_TRUE(known.emplace(query, static_cast<int>(i)).second) << i;
  }
  ConvQuery query = some_query();
  query.weights = &other;
  EXPECT_EQ(known.at(query), 3) << "whatever constant weights are";
}

// A step's cost is that of where it runs, on so many threads.
TEST(CostTable, AStepsCostIsThatOfItsThreadsAndPlace) {
  const auto relu = parse_step("op:Relu:x=f32,1x8x9x9,nhwc:y=f32,1x8x9x9,nhwc:opset=14");
  ASSERT_TRUE(relu.ok());
  const std::vector<Place> places(2, {&processor(), {.threads = 2, .cpu = cpu_features()}});
  std::vector<Place> others = places;
  others[1].request.threads = 4;
  selection::RoundStore store;
  for (const auto& [threads, seconds] : {std::pair{1, 1e-6}, {2, 2e-6}, {4, 4e-6}}) {
    const PlanRequest request{.threads = threads, .cpu = cpu_features()};
    ASSERT_TRUE(store
                    .store(measurement_key(*relu, request, CacheState::cold), {.candidate = candidate_of(*relu),
                                                                               .revision = selection::kStepRevision,
                                                                               .provider = selection::step_provider(),
                                                                               .median_seconds = seconds,
                                                                               .samples = 9})
                    .ok());
  }
  SelectionOptions options;
  options.store = &store;
  CostTable costs(options, all_engines(), others);
  for (int round = 0; round < 2; ++round) {
    EXPECT_DOUBLE_EQ(costs.of(*relu, Threads::one).seconds, 1e-6);
    EXPECT_DOUBLE_EQ(costs.of(*relu).seconds, 2e-6);
    EXPECT_DOUBLE_EQ(costs.of(*relu, Threads::all, 1).seconds, 4e-6);
    EXPECT_TRUE(costs.of(*relu).measured);
  }
  options.store = nullptr;
  EXPECT_FALSE(CostTable(options, all_engines(), places).of(*relu).measured);
}

// What was measured alone on a GPU takes less in a run; seen in runs it is what it was.
TEST(CostTable, OnAGpuAStepTakesLessInARunThanAlone) {
  const auto relu = parse_step("op:Relu:x=f32,1x8x8x8,nchw:y=f32,1x8x8x8,nchw");
  ASSERT_TRUE(relu.ok()) << relu.error().message;
  selection::RoundStore store;
  PlanRequest request{.cpu = cpu_features()};
  request.cuda = CudaDevice{.name = "Fake 9000", .architecture = 90};
  const auto take = [&](double seconds) {
    const Measurement alone{.candidate = candidate_of(*relu),
                            .revision = selection::kStepRevision,
                            .provider = selection::step_provider(),
                            .median_seconds = seconds,
                            .samples = 9};
    EXPECT_TRUE(store.store(measurement_key(*relu, request, CacheState::cold), alone).ok());
    SelectionOptions options;
    options.store = &store;
    return CostTable(options, all_engines(), {{&processor(), PlanRequest{}}, {&processor(), request}}, 1).of(*relu);
  };
  EXPECT_DOUBLE_EQ(take(12e-6).seconds, 12e-6 - kGpuAloneOverRun);
  EXPECT_TRUE(take(12e-6).measured);
  EXPECT_DOUBLE_EQ(take(2e-6).seconds, 2e-7) << "never nothing";
}

// With another place's request a convolution has another cost, and the chooser another answer.
TEST(CostTable, AConvolutionsCostIsThatOfItsThreads) {
  struct : FakeEngine {
    using FakeEngine::FakeEngine;
    double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest& request) const override {
      return 1e-3 / request.threads;
    }
  } const engine("fake.shares", FakeEngine::Behaviour{});
  const std::vector<const Engine*> engines = {&engine};
  NetworkOptions options;
  options.threads = 4;
  Chooser chooser(options, {}, {}, engines);
  ConvQuery query = some_query();
  for (int round = 0; round < 2; ++round) {
    query.threads = Threads::all;
    EXPECT_DOUBLE_EQ(*chooser.predict(query), 2.5e-4);
    EXPECT_DOUBLE_EQ(chooser.estimate(query)->seconds, 2.5e-4);
    query.threads = Threads::one;
    EXPECT_DOUBLE_EQ(*chooser.predict(query), 1e-3);
    EXPECT_DOUBLE_EQ(chooser.estimate(query)->seconds, 1e-3);
  }
  EXPECT_FALSE(chooser.costs().of(query, {"fake.other", {}}));
}

}  // namespace
}  // namespace convoy::network
