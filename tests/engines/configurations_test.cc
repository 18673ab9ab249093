// Every configuration of every engine is the same after being printed and parsed, is written as today, and is a
// configuration by itself: nothing is added to it, no other one has its text, and its plan says the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engines/cudnn/described_h200.h"
#include "engines/table.h"
#include "engines/testing/problem_generator.h"
#include "select/choose/candidates.h"
#include "select/choose/former_knobs.h"
#include "select/choose/names.h"

namespace convoy {
namespace {

class EveryConfiguration : public ::testing::Test {
 protected:
  // Of one engine for one problem that it takes.
  void check(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
    const Configurations configurations = engine.configurations(problem, request);
    const auto all = selection::all_configurations(engine, problem, request);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front().knobs, default_knobs(configurations));
    const auto estimate = engine.estimate(problem, request);
    if (estimate && engine.info().provider.empty()) {  // what a provider offers is guessed
      EXPECT_EQ(print(Candidate{engine.info().name, estimate->knobs}), print(all.front())) << print(problem);
    }
    std::set<std::string> texts;
    for (const Candidate& candidate : all) {
      const std::string text = print(candidate);
      SCOPED_TRACE(text + " on " + print(problem));
      EXPECT_TRUE(texts.insert(text).second) << "twice";
      const auto parsed = parse_candidate(text);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      ASSERT_EQ(*parsed, candidate);
      EXPECT_EQ(print(*parsed), text);
      EXPECT_FALSE(selection::has_former_knobs(candidate));
      EXPECT_FALSE(selection::with_named_knobs(candidate, &problem).has_value());
      const Engine* const alone[] = {&engine};
      const auto known = selection::check_candidate(candidate, alone);
      EXPECT_TRUE(known.ok()) << known.error().message;
      if (count_ % 64 == 0 || all.size() <= 64) {  // where the first of many is looked for, it is looked for long
        const auto whole = completed(candidate.knobs, configurations);
        ASSERT_TRUE(whole.ok()) << whole.error().message;
        EXPECT_EQ(*whole, candidate.knobs);
      }
      ++count_;
      with_words_ += std::any_of(candidate.knobs.begin(), candidate.knobs.end(),
                                 [](const KnobValue& knob) { return knob.value.word() != nullptr; });
      if (HasFatalFailure()) return;
    }
    if (engine.info().device != DeviceKind::cpu || engine.info().oracle) return;
    for (const Candidate* candidate : {&all.front(), &all.back()}) {  // plans are found again by what they say
      const auto plan = engine.plan(problem, candidate->knobs, request);
      if (plan.ok()) {
        EXPECT_EQ(print((*plan)->candidate()), print(*candidate)) << print(problem);
      }
    }
  }

  // Random problems that the engine takes.
  void check_random(const Engine& engine, const PlanRequest& request, int problems) {
    convoy::testing::Acceptance acceptance;
    convoy::testing::Random random(20261123);
    for (int i = 0; i < problems; ++i) {
      const auto problem = convoy::testing::random_problem_for(
          random, engine, request, convoy::testing::options_for(engine.info()), acceptance, 100);
      if (!problem) return;  // its library or the processor's instructions aren't there; the engine tests say so
      check(engine, *problem, request);
      if (HasFatalFailure()) return;
    }
  }

  int count_ = 0;
  int with_words_ = 0;
};

TEST_F(EveryConfiguration, OfEnginesOnTheCpuPrintsAndParses) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    PlanRequest request;
    request.cpu = capped(cpu_features(), isa);
    for (const Engine* engine : engines_on(DeviceKind::cpu)) check_random(*engine, request, 12);
  }
  EXPECT_GT(count_, 300);
}

TEST_F(EveryConfiguration, OfEnginesOnADescribedGpuPrintsAndParses) {
  PlanRequest request;
  request.cpu = cpu_features();
  request.cuda = cudnn::described_h200();
  for (const Engine* engine : engines_on(DeviceKind::cuda)) {
    if (engine->info().provider.empty()) check_random(*engine, request, 200);
  }
  EXPECT_GT(with_words_, 200);
  // cuDNN is asked about each problem, which takes long: a few for all of its engines.
  for (const char* text :
       {"fprop:x=bf16,16x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:math=reduced",
        "fprop:x=f16,16x32x28x28:w=f16,32x1x3x3:pad=1x1:groups=32",
        "wgrad:x=f32,8x64x28x28,nhwc:w=f32,64x64x3x3,nhwc:y=f32,8x64x28x28,nhwc:pad=1x1:math=tf32"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    for (const Engine* engine : engines_on(DeviceKind::cuda)) {
      if (!refuse(*engine, *problem, request)) check(*engine, *problem, request);
    }
  }
}

}  // namespace
}  // namespace convoy
