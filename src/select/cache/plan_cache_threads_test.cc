// Many threads on one cache. Nothing here uses OpenMP, whose library the thread sanitizer does not see into.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "convoy/plan_cache.h"

namespace convoy {
namespace {

constexpr int kThreads = 64;

// Writes C into out[0] and counts how often it planned.
class CountingEngine final : public Engine {
 public:
  CountingEngine() {
    info_.name = "fake.counting";
    declare_everything(info_);
  }
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }

  class CountingPlan final : public ConvPlan {
   public:
    explicit CountingPlan(std::int64_t channels) : channels_(channels) {}
    Candidate candidate() const override { return {"fake.counting", {}}; }
    std::size_t workspace_bytes() const override { return 64; }
    std::size_t retained_bytes() const override { return 1000; }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      *static_cast<std::int64_t*>(context.workspace) = channels_;  // the context's, which no other thread has
      static_cast<float*>(args.out)[0] = static_cast<float>(*static_cast<std::int64_t*>(context.workspace));
      return {};
    }

   private:
    const std::int64_t channels_;
  };

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest&) const override {
    ++plans;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that others arrive meanwhile
    if (problem.in_channels() == 13) return Error{ErrorCode::internal, "unlucky"};
    return std::unique_ptr<ConvPlan>(std::make_unique<CountingPlan>(problem.in_channels()));
  }

  mutable std::atomic<int> plans{0};

 private:
  EngineInfo info_;
};

ConvProblem layer(std::int64_t channels) {
  return *parse_problem("fprop:x=f32,1x" + std::to_string(channels) + "x4x4,nchw:w=f32,1x" + std::to_string(channels) +
                        "x1x1,nchw");
}

template <class Body>
void in_threads(const Body& body) {
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ++waiting;
      while (waiting < kThreads) std::this_thread::yield();
      body(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PlanCacheThreads, OneBuildHoweverManyAsk) {
  for (const std::int64_t channels : {4, 13}) {  // 13 can't be planned: everyone is told
    CountingEngine engine;
    PlanCache cache;
    const PlanSettings settings({&engine}, {}, {});
    const ConvProblem problem = layer(channels);
    std::vector<std::shared_ptr<const CachedPlan>> plans(kThreads);
    std::atomic<int> failed{0};
    in_threads([&](int t) {
      const auto plan = cache.get({problem, settings});
      if (plan.ok()) plans[static_cast<std::size_t>(t)] = *plan;
      if (!plan.ok()) ++failed;
    });
    if (channels == 4) {
      EXPECT_EQ(engine.plans, 1);
      for (const auto& plan : plans) EXPECT_EQ(plan, plans[0]);
    } else {
      EXPECT_EQ(failed, kThreads);
      EXPECT_EQ(cache.statistics().plans, 0u);
    }
  }
}

TEST(PlanCacheThreads, HitsBuildsEvictionsAndRunsAtOnce) {
  CountingEngine engine;
  PlanCache cache({.plans = 6, .bytes = 100'000});
  const PlanSettings settings({&engine}, {}, {});
  std::vector<ConvProblem> problems;
  for (int i = 1; i <= 12; ++i) problems.push_back(layer(i));
  std::atomic<int> wrong{0};
  in_threads([&](int t) {
    alignas(64) float x[64 * 16] = {}, out[16] = {};
    for (int i = 0; i < 40; ++i) {
      // Mostly the same few, so that there are hits.
      const std::size_t which = static_cast<std::size_t>(i % 4 == 0 ? (t * 7 + i * 5) % 12 : (t + i) % 3);
      const ConvArgs args{.x = x, .w = x, .out = out};
      if (!cache.run(problems[which], settings, args).ok() || out[0] != static_cast<float>(which + 1)) ++wrong;
      if (t == 0 && i % 10 == 9) cache.clear();
      if (cache.statistics().plans > 6) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  const auto statistics = cache.statistics();
  EXPECT_EQ(statistics.builds, static_cast<std::uint64_t>(engine.plans));
  EXPECT_EQ(statistics.hits + statistics.waits + statistics.builds, 40u * kThreads);
  EXPECT_GT(statistics.evictions, 0u);
  EXPECT_GT(statistics.hits, statistics.builds);
}

TEST(PlanCacheThreads, SharedCacheIsSafeToUse) {
  CountingEngine engine;
  std::atomic<int> wrong{0};
  in_threads([&](int t) {
    SelectionOptions options;
    options.filter.engines = t % 3 == 0 ? "*" : "fake.*";
    const auto plan = shared_plan_cache().get({layer(5), PlanSettings({&engine}, options, {})});
    if (!plan.ok()) ++wrong;
  });
  shared_plan_cache().clear();  // the engine goes
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine.plans, 2);
}

}  // namespace
}  // namespace convoy
