#include "engines/on_copies/on_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/configurations.h"
#include "core/declared_names.h"
#include "engines/table.h"
#include "select/tune/check.h"

namespace convoy {
namespace {

std::vector<const Engine*> engines_named(std::string_view ending) {
  std::vector<const Engine*> found;
  for (const Engine* each : all_engines()) {
    if (each->info().name.ends_with(ending)) found.push_back(each);
  }
  return found;
}
std::vector<const Engine*> engines() {
  EXPECT_EQ(engines_named(".in_f32").size(), 2U);
  return engines_named(".in_f32");
}
const Engine& nhwc() { return *engines_named("cpu.nhwc").at(0); }

ConvProblem problem_of(const std::string& text) {
  const auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().message;
  return *problem;
}

// Every engine and knob, weights constant and given, odd alignments, no cache of what was in the workspace before.
void expect_right(std::span<const Engine* const> engines, const char* text) {
  for (const bool constant_weights : {true, false}) {
    selection::CheckSetup setup{.problem = problem_of(text), .request = {.threads = 2}};
    setup.constant_weights = constant_weights;
    auto checker = selection::CandidateChecker::make(setup, all_engines());
    ASSERT_TRUE(checker.ok()) << text << ": " << checker.error().message;
    std::set<std::string> ran;
    for (const Engine* engine : engines) {
      if (refuse(*engine, setup.problem, setup.request)) continue;
      for (const KnobValues& knobs : all_of(engine->configurations(setup.problem, setup.request))) {
        const Candidate candidate{engine->info().name, knobs};
        const selection::CheckOutcome outcome = checker->check(candidate);
        EXPECT_EQ(outcome.fault, selection::CheckFault::none) << text << " " << print(candidate) << outcome.failure;
        EXPECT_EQ(outcome.candidate, candidate) << text;
        ran.emplace(word_or(knobs, "engine", ""));
      }
    }
    EXPECT_FALSE(ran.empty()) << text;
  }
}

// Every operand that may be converted.
TEST(InF32, EveryConfigurationMatchesTheOracle) {
  for (const char* text : {
           "fprop:x=bf16,1x16x9x9,nchw:w=bf16,24x16x3x3:pad=1x1:bias=1:act=relu",
           "fprop:x=f16,2x16x9x9,nhwc:w=f16,16x16x3x3:y=f32,2x16x9x9,nhwc:pad=1x1:beta=0.5:gamma=1",
           "fprop:x=bf16,1x32x8x8,nchw8c:w=bf16,32x1x3x3:pad=1x1:groups=32:bias=1:gamma=0.5:beta=0.25:alpha=0.5",
           "dgrad:x=f16,1x8x9x9,nchw:w=f16,12x8x3x3:y=f16,1x12x5x5,nchw:stride=2x2:pad=1x1",
           "dgrad:x=bf16,1x20x9x9,nchw:w=f32,12x20x3x3:y=bf16,1x12x9x9,nchw:pad=1x1:bias=out",
           "wgrad:x=bf16,2x8x9x9,nchw:w=f32,12x8x3x3:y=bf16,2x12x9x9,nchw:pad=1x1",
           "wgrad:x=f16,2x8x20,nchw:w=f16,12x8x3:y=f16,2x12x18,nchw",
           "fprop:x=bf16,1x4x6x7x8,nchw:w=bf16,6x4x3x3x3:dilation=2x2x2:pad=2x2x2",
       }) {
    expect_right(engines(), text);
  }
}

// Both tensors or one; what out holds, and z.
TEST(ChannelsLast, EveryConfigurationMatchesTheOracle) {
  for (const char* text : {
           "fprop:x=f32,2x16x12x9,nchw:w=f32,24x16x3x3:pad=1x1:bias=1:act=relu",
           "fprop:x=f32,1x16x9x9,nchw:w=f32,16x16x3x3:y=f32,1x16x9x9,nhwc:pad=1x1:beta=0.5",
           "fprop:x=f32,1x32x8x8,nchw:w=f32,32x1x3x3:pad=1x1:groups=32:bias=1:gamma=0.5:beta=0.25:alpha=0.5",
           "dgrad:x=f32,1x8x9x9,nchw:w=f32,12x8x3x3:y=f32,1x12x5x5,nchw:stride=2x2:pad=1x1:beta=1",
           "dgrad:x=f32,1x20x9x9,nhwc:w=f32,12x20x3x3:y=f32,1x12x9x9,nchw:pad=1x1",
           "wgrad:x=f32,2x8x9x9,nchw:w=f32,12x8x3x3:y=f32,2x12x9x9,nhwc:pad=1x1:beta=0.5",
           "wgrad:x=f32,2x8x20,nchw:w=f32,12x8x3:y=f32,2x12x18,nchw",
           "fprop:x=f32,1x4x6x7x8,nchw:w=f32,6x4x3x3x3:dilation=2x2x2:pad=2x2x2",
           "fprop:x=f64,2x16x12x9,nchw:w=f64,24x16x3x3:pad=1x1:bias=1:act=relu",
           "dgrad:x=f64,1x8x9x9,nchw:w=f64,12x8x3x3:y=f64,1x12x5x5,nchw:stride=2x2:pad=1x1:beta=1",
           "wgrad:x=f64,2x8x9x9,nchw:w=f64,12x8x3x3:y=f64,2x12x9x9,nhwc:pad=1x1:beta=0.5",
       }) {
    expect_right(engines_named("cpu.nhwc"), text);
  }
}

// Engines of integers alone are none that could be named.
TEST(ChannelsLast, NamesEnginesOfF32) {
  const auto knobs = declared_knobs_of(nhwc());
  const auto knob = std::ranges::find(knobs, "engine", &DeclaredKnob::name);
  ASSERT_NE(knob, knobs.end());
  EXPECT_NE(std::ranges::find(knob->words, "cpu.winograd"), knob->words.end());
  EXPECT_EQ(std::ranges::find(knob->words, "cpu.int8"), knob->words.end());
}

TEST(ChannelsLast, RefusesWhatIsThatAlready) {
  const auto refusal = refuse(nhwc(), problem_of("fprop:x=f32,1x4x9x9,nhwc:w=f32,4x4x3x3:y=f32,1x4x7x7,nhwc"), {});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "x and y are nhwc, or have blocks of channels: this engine copies other layouts");
  EXPECT_TRUE(refuse(nhwc(), problem_of("fprop:x=f32,1x8x9x9,nchw8c:w=f32,8x8x3x3"), {}));
  EXPECT_TRUE(refuse(nhwc(), problem_of("fprop:x=bf16,1x4x9x9,nchw:w=bf16,4x4x3x3"), {}));
}

TEST(InF32, TakesTheEngineThatIsFastestInF32) {
  const ConvProblem problem = problem_of("fprop:x=bf16,1x64x28x28,nhwc:w=bf16,64x64x3x3:pad=1x1");
  const ConvProblem wide = problem_of("fprop:x=f32,1x64x28x28,nhwc:w=f32,64x64x3x3:pad=1x1");
  const PlanRequest request;
  double least = 1, least_in_f32 = 1;
  for (const Engine* engine : engines()) {
    const auto estimate = engine->estimate(problem, request);
    ASSERT_TRUE(estimate);
    EXPECT_TRUE(estimate->certain);
    EXPECT_EQ(estimate->knobs, default_knobs(engine->configurations(problem, request)));
    EXPECT_DOUBLE_EQ(estimate->seconds, engine->predict_seconds(problem, estimate->knobs, request));
    least_in_f32 = std::min(least_in_f32, estimate->seconds);
  }
  for (const Engine* each : engines_on(DeviceKind::cpu)) {
    if (each->info().oracle || refuse(*each, wide, request)) continue;
    least = std::min(least, certain_estimate(*each, wide, request)->seconds);
  }
  EXPECT_GT(least_in_f32, least);
  EXPECT_LT(least_in_f32, 3 * least);
}

TEST(InF32, RefusesWhatHasNoNarrowTensor) {
  const PlanRequest request;
  for (const Engine* engine : engines()) {
    EXPECT_TRUE(refuse(*engine, problem_of("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3"), request));
    EXPECT_TRUE(refuse(*engine, problem_of("fprop:x=s8,1x4x9x9,nchw:w=s8,4x4x3x3:y=f32,1x4x7x7,nchw"), request));
  }
  const auto none = make_in_f32_engine("none.in_f32", {});
  const auto refusal = refuse(*none, problem_of("fprop:x=bf16,1x4x9x9,nchw:w=bf16,4x4x3x3"), request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "x.type=bf16, w.type=bf16, y.type=bf16: no engine takes this in f32");
}

}  // namespace
}  // namespace convoy
