// Requests that can't be served: unknown engines and knobs, refusals, each with its reason.
#include <gtest/gtest.h>

#include "convoy/selection.h"
#include "support/problem_generator.h"

namespace convoy::testing {
namespace {

ConvProblem layer(const std::string& text) {
  const Result<ConvProblem> problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text;
  return problem.ok() ? *problem : ConvProblem{};
}

const PlanRequest request{1, cpu_features(), nullptr};

TEST(RequestErrors, UnknownEngineListsThose) {
  const auto plan = make_plan(layer("fprop:x=f32,1x8x8x8:w=f32,8x8x3x3"), {"cpu.teleport", {}}, all_engines(), request);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::not_found);
  EXPECT_NE(plan.error().message.find("cpu.teleport"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().message.find("reference"), std::string::npos) << plan.error().message;
}

TEST(RequestErrors, UnknownKnobAndValueAreNamed) {
  const auto plan =
      make_plan(layer("fprop:x=f32,1x8x8x8:w=f32,8x8x3x3"), {"reference", {{"warp", 9}}}, all_engines(), request);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(plan.error().message.find("warp"), std::string::npos) << plan.error().message;
}

// Every refusal of every engine on random problems has a code's name and a sentence with the field and its value.
TEST(RequestErrors, EveryRefusalSaysWhy) {
  Random random(31);
  ProblemOptions options;
  using enum DataType;
  options.types = {
      {f32, f32, f32, f32}, {f64, f64, f64, f64}, {bf16, bf16, bf16, f32}, {u8, s8, u8, s32}, {s8, s8, s32, s32}};
  std::map<std::string, int> refusals;
  for (int i = 0; i < 2000; ++i) {
    const ConvProblem problem = random_problem(random, options);
    for (const EngineAnswer& answer : list_candidates(problem, all_engines(), request)) {
      if (!answer.refusal) continue;
      ++refusals[answer.engine->info().name];
      const std::string& reason = answer.refusal->reason;
      EXPECT_FALSE(name_of(answer.refusal->code).empty());
      EXPECT_GT(reason.size(), 10U) << answer.engine->info().name << ": '" << reason << "'";
      EXPECT_TRUE(reason.find('=') != std::string::npos || reason.find(':') != std::string::npos)
          << answer.engine->info().name << ": '" << reason << "' names no field and value";
    }
  }
  EXPECT_EQ(refusals.count("reference"), 0U);
}

TEST(RequestErrors, NothingCanRunItSaysWhyForEach) {
  std::vector<const Engine*> engines;
  for (const Engine* engine : all_engines()) {
    if (!engine->info().oracle) engines.push_back(engine);
  }
  const auto selection = select(layer("wgrad:x=f64,1x8x8x8:w=f64,8x8x3x3:y=f64,1x8x6x6"), engines, {}, request);
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
  for (const Engine* engine : engines) {
    EXPECT_NE(selection.error().message.find(engine->info().name), std::string::npos) << selection.error().message;
  }
}

}  // namespace
}  // namespace convoy::testing
