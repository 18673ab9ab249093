// Requests that can't be served: unknown engines and knobs, refusals, each with its reason.
#include <gtest/gtest.h>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"
#include "engines/testing/problem_generator.h"

namespace convoy::testing {
namespace {

ConvProblem layer(const std::string& text) {
  const Result<ConvProblem> problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text;
  return problem.ok() ? *problem : ConvProblem{};
}

const PlanRequest request{1, cpu_features(), nullptr};

TEST(RequestErrors, UnknownEngineIsNamedWithTheNearest) {
  const auto plan = make_plan(layer("fprop:x=f32,1x8x8x8:w=f32,8x8x3x3"), {"cpu.teleport", {}}, all_engines(), request);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::not_found);
  EXPECT_NE(plan.error().message.find("cpu.teleport"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().message.find("convoy list engines"), std::string::npos) << plan.error().message;
  const auto near = make_plan(layer("fprop:x=f32,1x8x8x8:w=f32,8x8x3x3"), {"cpu.gem", {}}, all_engines(), request);
  ASSERT_FALSE(near.ok());
  EXPECT_NE(near.error().message.find("did you mean cpu.gemm"), std::string::npos) << near.error().message;
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
    if (!engine->info().oracle && engine->info().device == DeviceKind::cpu) engines.push_back(engine);
  }
  const auto selection =
      select(layer("wgrad:x=f8_e4m3,1x8x8x8:w=f8_e4m3,8x8x3x3:y=f8_e4m3,1x8x6x6"), engines, {}, request);
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
  for (const Engine* engine : engines) {
    EXPECT_NE(selection.error().message.find(engine->info().name), std::string::npos) << selection.error().message;
  }
}

// Every candidate of a problem that uses every operand, each operand taken away or misaligned in turn: an error that
// names it, whatever the engine.
TEST(ExecutionErrors, WhatIsMissingIsNamedBeforeAnythingRuns) {
  const ConvProblem problem =
      layer("fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x3:y=f32,1x8x6x6,nhwc:bias=1:gamma=1:act=prelu");
  const auto memory = allocate_aligned(1 << 16);
  std::byte* const p = memory.get();
  auto team = make_cpu_team(1), larger = make_cpu_team(2);
  for (const Candidate& candidate : rank_by_heuristic(problem, all_engines(), {}, request)) {
    const auto plan = make_plan(problem, candidate, all_engines(), request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto workspace = allocate_aligned((*plan)->workspace_bytes());
    ConvArgs good{.x = p, .w = p, .out = p + 32768, .bias = p, .z = p, .slopes = reinterpret_cast<float*>(p)};
    const auto expect_named = [&](const ConvArgs& args, const ExecContext& context, const std::string& name) {
      const auto done = (*plan)->execute(args, context);
      ASSERT_FALSE(done.ok()) << print(candidate) << " took a wrong " << name;
      EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
      EXPECT_EQ(done.error().message.rfind(name, 0), 0U) << print(candidate) << ": " << done.error().message;
    };
    const ExecContext context{*team, workspace.get(), (*plan)->workspace_bytes()};
    for (const auto& [name, take] : std::vector<std::pair<std::string, void (*)(ConvArgs&)>>{
             {"x", [](ConvArgs& a) { a.x = nullptr; }},
             {"w", [](ConvArgs& a) { a.w = nullptr; }},
             {"out", [](ConvArgs& a) { a.out = nullptr; }},
             {"z", [](ConvArgs& a) { a.z = nullptr; }},
             {"bias", [](ConvArgs& a) { a.bias = nullptr; }},
             {"slopes", [](ConvArgs& a) { a.slopes = nullptr; }},
             {"x", [](ConvArgs& a) { a.x = static_cast<const std::byte*>(a.x) + 4; }},
             {"out", [](ConvArgs& a) { a.out = static_cast<std::byte*>(a.out) + 4; }}}) {
      ConvArgs args = good;
      take(args);
      expect_named(args, context, name);
    }
    expect_named(good, {*larger, workspace.get(), (*plan)->workspace_bytes()}, "team.size()=2");
    CudaQueue stream(nullptr);
    expect_named(good, {stream, workspace.get(), (*plan)->workspace_bytes()}, "queue is of the kind cuda");
    if ((*plan)->workspace_bytes() > 0) {
      expect_named(good, {*team, workspace.get(), (*plan)->workspace_bytes() - 1}, "workspace_bytes=");
      expect_named(good, {*team, nullptr, (*plan)->workspace_bytes()}, "workspace");
    }
  }
}

// The memory of a std::vector: the error says what to write, and with that it runs.
TEST(ExecutionErrors, UnalignedMemoryNamesTheFieldToSet) {
  ConvProblem problem = layer("fprop:x=f32,1x8x8x8:w=f32,8x8x3x3");
  const auto memory = allocate_aligned(1 << 16);
  auto team = make_cpu_team(1);
  const ConvArgs args{.x = memory.get() + 16, .w = memory.get() + 8192, .out = memory.get() + 32768 + 4};
  const auto run = [&]() -> std::string {
    const auto plan = make_plan(problem, {"reference", {}}, all_engines(), {});
    if (!plan.ok()) return plan.error().message;
    const auto done = (*plan)->execute(args, {*team});
    return done.ok() ? "" : done.error().message;
  };
  std::string error = run();
  EXPECT_TRUE(error.starts_with("x: pointer 0x")) << error;
  EXPECT_NE(error.find("is aligned to 16 bytes, the problem says 64: set x.alignment = 16"), std::string::npos)
      << error;
  problem.x.alignment = 16;
  error = run();
  EXPECT_TRUE(error.starts_with("out: pointer 0x")) << error;
  EXPECT_NE(error.find("is aligned to 4 bytes, the problem says 64: set y.alignment = 4"), std::string::npos) << error;
  problem.y = {};
  problem.x.alignment = 4;
  ASSERT_TRUE(infer(problem).ok());
  EXPECT_EQ(run(), "");
}

TEST(ExecutionErrors, GivenZeroPointsThatAreMissingAreNamed) {
  const ConvProblem problem = layer("fprop:x=u8,1x8x8x8,nhwc:w=s8,8x8x3x3:y=s32,1x8x6x6,nhwc:zp=given,given,0");
  const auto memory = allocate_aligned(1 << 16);
  const auto plan = make_plan(problem, {"reference", {}}, all_engines(), request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto team = make_cpu_team(1);
  ConvArgs args{.x = memory.get(), .w = memory.get() + 8192, .out = memory.get() + 16384};
  EXPECT_EQ((*plan)->execute(args, {*team}).error().message, "x_zero_point is null, and the problem has it given");
  const std::int32_t zeros[8] = {};
  args.x_zero_point = zeros;
  EXPECT_EQ((*plan)->execute(args, {*team}).error().message, "w_zero_points is null, and the problem has them given");
  args.w_zero_points = zeros;
  EXPECT_TRUE((*plan)->execute(args, {*team}).ok());
}

TEST(ExecutionErrors, AGateThatIsMissingIsNamed) {
  const auto memory = allocate_aligned(1 << 16);
  const auto plan =
      make_plan(layer("fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x1x1:gate=1"), {"reference", {}}, all_engines(), request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto team = make_cpu_team(1);
  ConvArgs args{.x = memory.get(), .w = memory.get() + 8192, .out = memory.get() + 16384};
  EXPECT_EQ((*plan)->execute(args, {*team}).error().message, "gate is null, and fprop needs it");
  args.gate = memory.get();
  EXPECT_TRUE((*plan)->execute(args, {*team}).ok());
}

}  // namespace
}  // namespace convoy::testing
