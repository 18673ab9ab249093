#include "convoy/plan_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "convoy/host_tensor.h"
#include "select/testing/fake_engine.h"

namespace convoy {
namespace {

using testing_support::FakeEngine;

ConvProblem layer(std::int64_t channels) {
  return *parse_problem("fprop:x=f32,1x" + std::to_string(channels) + "x6x6,nchw:w=f32,4x" + std::to_string(channels) +
                        "x3x3,nchw");
}

class Cache : public ::testing::Test {
 protected:
  Cache() { request_.cpu = cpu_features(); }
  PlanSettings settings(SelectionOptions options = {}) { return {{&engine_}, std::move(options), request_}; }

  std::atomic<int> plans_{0};
  FakeEngine engine_{"fake.engine", {.plans = &plans_}};
  PlanRequest request_;
};

TEST_F(Cache, APlanIsBuiltOnceAndShared) {
  PlanCache cache;
  const ConvProblem problem = layer(4);
  const auto first = cache.get({problem, settings()});
  const auto second = cache.get({problem, settings()});  // equal settings, made separately
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ((*first)->selection.by, SelectedBy::heuristic);
  EXPECT_EQ((*first)->problem, problem);
  const auto statistics = cache.statistics();
  EXPECT_EQ(statistics.hits, 1u);
  EXPECT_EQ(statistics.builds, 1u);
  EXPECT_EQ(statistics.plans, 1u);
  EXPECT_EQ(statistics.bytes, (*first)->bytes);
  EXPECT_TRUE(print(statistics).starts_with("1 plans, ")) << print(statistics);
}

// Every field of the problem and of the request that can change the plan.
TEST_F(Cache, KeysAreComplete) {
  PlanCache cache;
  const ConvProblem problem = layer(4);
  int expected = 0;
  const auto adds = [&](const PlanQuery& query) {
    ASSERT_TRUE(cache.get(query).ok());
    EXPECT_EQ(plans_, ++expected) << print(query.problem);
    ASSERT_TRUE(cache.get(query).ok());
    EXPECT_EQ(plans_, expected) << print(query.problem);
  };
  const PlanSettings plain = settings();
  adds({problem, plain});
  const std::function<void(ConvProblem&)> changes[] = {
      [](ConvProblem& p) { p = layer(8); },
      [](ConvProblem& p) { p.alpha = 2; },
      [](ConvProblem& p) { p.beta = 1; },
      [](ConvProblem& p) { p.math = MathMode::tf32; },
      [](ConvProblem& p) { p.mode = ConvMode::convolution; },
      [](ConvProblem& p) { p.epilogue.bias = true; },
      [](ConvProblem& p) { p.epilogue.gamma = 1; },
      [](ConvProblem& p) {
        p.epilogue.activation = {ActivationKind::clip, 0, 6};
      },
      [](ConvProblem& p) {
        p.epilogue.activation = {ActivationKind::clip, 0, 1};
      },
      [](ConvProblem& p) { p.x = p.x.with_layout(Layout::nhwc); },
      [](ConvProblem& p) { p.x.alignment = 16; },
      [](ConvProblem& p) { p.y.alignment = 16; },
  };
  for (const auto& change : changes) {
    ConvProblem changed = problem;
    change(changed);
    adds({changed, plain});
  }
  PlanRequest request = request_;
  request.threads = 2;
  adds({problem, PlanSettings({&engine_}, {}, request)});
  request = request_;
  request.cpu = capped(request.cpu, Isa::portable);
  if (request.cpu != request_.cpu) adds({problem, PlanSettings({&engine_}, {}, request)});
  FakeEngine other("fake.other", {.plans = &plans_});
  adds({problem, PlanSettings({&engine_, &other}, {}, request_)});
  const std::vector<float> weights(4 * 4 * 9);
  adds({problem, plain, alignments_of(problem), {weights.data(), 1}});
  adds({problem, plain, alignments_of(problem), {weights.data(), 2}});
  // A node's name counts where rules speak of nodes, and only there.
  SelectionOptions by_node;
  by_node.rules = *parse_rules("node=a* -> fake.engine{tile=2}");
  const PlanSettings nodes = settings(by_node);
  adds({problem, nodes, alignments_of(problem), {}, "a1"});
  adds({problem, nodes, alignments_of(problem), {}, "b1"});
  ASSERT_TRUE(cache.get({problem, plain, alignments_of(problem), {}, "a1"}).ok());
  EXPECT_EQ(plans_, expected);
}

TEST_F(Cache, PointersDecideTheAlignment) {
  alignas(64) static std::byte memory[256];
  EXPECT_EQ(alignment_class(memory), 64);
  EXPECT_EQ(alignment_class(memory + 128), 64);
  EXPECT_EQ(alignment_class(memory + 32), 32);
  EXPECT_EQ(alignment_class(memory + 12), 4);
  EXPECT_EQ(alignment_class(memory + 1), 1);
  EXPECT_EQ(alignment_class(nullptr), 64);
  // What is computed takes the place of its own field, and z is read like it.
  const ConvArgs args{.x = memory + 4, .w = memory + 8, .y = memory + 16, .out = memory + 32};
  EXPECT_EQ(alignments_of(Pass::fprop, args), (Alignments{4, 8, 32}));
  EXPECT_EQ(alignments_of(Pass::dgrad, args), (Alignments{32, 8, 16}));
  EXPECT_EQ(alignments_of(Pass::wgrad, args), (Alignments{4, 32, 16}));
  ConvArgs with_z = args;
  with_z.z = memory + 2;
  EXPECT_EQ(alignments_of(Pass::fprop, with_z), (Alignments{4, 8, 2}));

  PlanCache cache;
  const ConvProblem problem = layer(4);
  const auto x = allocate_aligned(4096), w = allocate_aligned(4096), y = allocate_aligned(4096);
  std::fill_n(reinterpret_cast<float*>(x.get()), 1024, 1.0f);
  std::fill_n(reinterpret_cast<float*>(w.get()), 1024, 1.0f);
  for (const int offset : {0, 4, 64, 68}) {  // two classes
    const ConvArgs run{.x = x.get() + offset, .w = w.get(), .out = y.get()};
    ASSERT_TRUE(cache.run(problem, settings(), run).ok());
    EXPECT_EQ(reinterpret_cast<float*>(y.get())[0], 36.0f);
  }
  EXPECT_EQ(plans_, 2);
}

TEST_F(Cache, TheLeastRecentlyUsedGoFirst) {
  PlanCache cache({.plans = 3});
  const ConvProblem problems[] = {layer(4), layer(8), layer(12), layer(16)};
  for (int i : {0, 1, 2, 0, 3}) ASSERT_TRUE(cache.get({problems[i], settings()}).ok());  // 1 goes
  EXPECT_EQ(plans_, 4);
  EXPECT_EQ(cache.statistics().evictions, 1u);
  for (int i : {0, 2, 3}) ASSERT_TRUE(cache.get({problems[i], settings()}).ok());
  EXPECT_EQ(plans_, 4);
  ASSERT_TRUE(cache.get({problems[1], settings()}).ok());
  EXPECT_EQ(plans_, 5);
  EXPECT_EQ(cache.statistics().plans, 3u);
  cache.clear();
  EXPECT_EQ(cache.statistics().plans, 0u);
  EXPECT_EQ(cache.statistics().bytes, 0u);
}

TEST_F(Cache, BytesAreBoundedAndADroppedPlanLivesOnInUse) {
  PlanCache unbounded;
  const std::size_t one = (*unbounded.get({layer(4), settings()}))->bytes;
  EXPECT_GT(one, sizeof(ConvProblem));
  PlanCache cache({.plans = 100, .bytes = one * 5 / 2});
  const auto held = *cache.get({layer(4), settings()});
  for (int channels = 8; channels < 40; channels += 4) {
    ASSERT_TRUE(cache.get({layer(channels), settings()}).ok());
    EXPECT_LE(cache.statistics().bytes, one * 5 / 2);
  }
  EXPECT_EQ(cache.statistics().plans, 2u);
  EXPECT_EQ(held->plan->candidate().engine, "fake.engine");
  PlanCache none({.plans = 100, .bytes = 1});  // one too big for the limit is handed out all the same
  EXPECT_TRUE(none.get({layer(4), settings()}).ok());
  EXPECT_EQ(none.statistics().plans, 0u);
}

TEST_F(Cache, FailuresAreToldAndNotKept) {
  std::atomic<int> tries{0};
  FakeEngine broken("fake.broken", {.plans = &tries, .plan_fails = true});
  PlanCache cache;
  const ConvProblem problem = layer(4);
  for (int i = 1; i <= 2; ++i) {
    const auto plan = cache.get({problem, PlanSettings({&broken}, {}, request_)});
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find("fake.broken can't plan"), std::string::npos);
    EXPECT_EQ(tries, i);
  }
  EXPECT_EQ(cache.statistics().failures, 2u);
  EXPECT_EQ(cache.statistics().plans, 0u);
}

// The promise is 1 microsecond; the best of many batches, since other programs run here too.
TEST_F(Cache, AHitTakesLessThanAMicrosecond) {
  PlanCache cache;
  std::vector<ConvProblem> problems;
  for (int i = 1; i <= 100; ++i) problems.push_back(layer(4 * i));
  const PlanSettings same = settings();
  for (const ConvProblem& problem : problems) ASSERT_TRUE(cache.get({problem, same}).ok());
  double best = 1;
  for (int batch = 0; batch < 50; ++batch) {
    const double start = monotonic_seconds();
    for (const ConvProblem& problem : problems) static_cast<void>(cache.get({problem, same}));
    best = std::min(best, (monotonic_seconds() - start) / static_cast<double>(problems.size()));
  }
  EXPECT_EQ(plans_, 100);
  RecordProperty("nanoseconds", static_cast<int>(best * 1e9));
#ifdef NDEBUG
  EXPECT_LT(best, 1e-6);
#endif
}

TEST_F(Cache, AContextKeepsItsWorkspaceUntilTold) {
  FakeEngine hungry("fake.hungry", {.workspace = 1 << 20});
  PlanCache cache;
  const auto x = allocate_aligned(4096), w = allocate_aligned(4096), y = allocate_aligned(4096);
  const ConvArgs args{.x = x.get(), .w = w.get(), .out = y.get()};
  std::thread([&] {
    ASSERT_TRUE(cache.run(layer(4), PlanSettings({&hungry}, {}, request_), args).ok());
    ExecutionContext& context = ExecutionContext::of_this_thread();
    EXPECT_EQ(context.workspace_bytes(), 1u << 20);
    context.release_workspace();
    EXPECT_EQ(context.workspace_bytes(), 0u);
  }).join();
  ExecutionContext own;
  const auto plan = *cache.get({layer(4), settings()});
  EXPECT_FALSE(own.execute(*plan->plan, 0, args).ok());
}

}  // namespace
}  // namespace convoy
