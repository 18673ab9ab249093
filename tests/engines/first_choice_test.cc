// The first choice for a GPU, which asks cuDNN's heuristics once, beside the ranking of all candidates, which asks
// every engine. With the real cuDNN, for a device that is only described.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convoy/selection.h"
#include "device/cuda/cudnn.h"
#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/survey.h"
#include "engines/table.h"

namespace convoy {
namespace {

TEST(FirstChoice, IsTheFirstOfTheRanking) {
  if (const auto api = cuda::cudnn(); !api.ok()) GTEST_SKIP() << "skipped: " << api.error().message;
  PlanRequest request;
  request.cuda = cudnn::described_h200();
  const auto engines = engines_on(DeviceKind::cuda);
  for (const char* text : {
           "fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:math=reduced",
           "fprop:x=f16,64x64x56x56:w=f16,64x64x3x3:pad=1x1",
           "dgrad:x=f32,32x64x56x56:w=f32,64x64x3x3:y=f32,32x64x56x56:pad=1x1",
           "wgrad:x=f32,32x64x56x56,nhwc:w=f32,64x64x3x3,nhwc:y=f32,32x64x56x56,nhwc:pad=1x1:math=tf32",
           "wgrad:x=bf16,32x128x28x28,nhwc:w=bf16,128x4x3x3,nhwc:y=bf16,32x128x28x28,nhwc:pad=1x1:groups=32",
           "fprop:x=f32,8x32x20x20:w=f32,64x32x3x3:pad=1x1:bias=1:act=relu",
           "fprop:x=bf16,2x16x8x28x28:w=bf16,32x16x3x3x3:pad=1x1x1",
       }) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    // First in this process, so that nothing is known yet.
    const auto chosen = select(*problem, engines, {}, request);
    const auto ranked = rank_by_heuristic(*problem, engines, {}, request);
    ASSERT_FALSE(ranked.empty()) << text;
    ASSERT_TRUE(chosen.ok()) << chosen.error().message;
    EXPECT_EQ(print(chosen->candidate), print(ranked.front())) << text;
    SelectionFilter without;
    without.engines = "*,!" + chosen->candidate.engine;
    const auto best = predict_best(*problem, engines, without, request);
    const auto others = rank_by_heuristic(*problem, engines, without, request);
    ASSERT_EQ(best.has_value(), !others.empty()) << text;
    if (best) {
      EXPECT_EQ(print(best->candidate), print(others.front())) << text;
    }
  }
}

// The layers of a 256^3 MRI's segmentation: cuDNN's tiles have 64 channels.
TEST(FirstChoice, OfFewChannelsOnPlanesIsDirect) {
  PlanRequest request;
  request.cuda = cudnn::described_h200();
  const std::pair<const char*, const char*> kinds[] = {
      {"f32", ""}, {"f32", "math=tf32:"}, {"f16", "math=reduced:"}, {"bf16", "math=reduced:"}};
  for (const auto& [type, math] : kinds) {
    for (const int apart : {1, 2, 4, 8, 16}) {
      const auto problem = parse_problem(fmt::format(
          "fprop:x={0},1x5x256x256x256:w={0},5x5x3x3x3:{1}pad={2}x{2}x{2}:dilation={2}x{2}x{2}:bias=1:act=relu", type,
          math, apart));
      ASSERT_TRUE(problem.ok()) << problem.error().message;
      const auto chosen = select(*problem, engines_on(DeviceKind::cuda), {}, request);
      ASSERT_TRUE(chosen.ok()) << chosen.error().message;
      EXPECT_EQ(chosen->candidate.engine, "cuda.direct") << print(*problem);
    }
  }
}

// The price of a first choice is that of one query: issue 17's measure is in bench/gpu/steps/choice_cost.py.
TEST(FirstChoice, AsksTheHeuristicsOnce) {
  if (const auto api = cuda::cudnn(); !api.ok()) GTEST_SKIP() << "skipped: " << api.error().message;
  PlanRequest request;
  request.cuda = cudnn::described_h200();
  const auto engines = engines_on(DeviceKind::cuda);
  const auto problem =
      parse_problem("fprop:x=bf16,64x96x56x56,nhwc:w=bf16,96x96x3x3,nhwc:y=bf16,64x96x56x56,nhwc:pad=1x1:math=reduced");
  ASSERT_TRUE(problem.ok());
  const auto survey = cudnn::survey(*problem, *request.cuda, 0);
  ASSERT_TRUE(survey.ok());
  EXPECT_EQ((*survey)->queries(), 0);
  ASSERT_TRUE(select(*problem, engines, {}, request).ok());
  EXPECT_EQ((*survey)->queries(), 1);
  rank_by_heuristic(*problem, engines, {}, request);
  EXPECT_EQ((*survey)->queries(), 3);
  // Own kernels that are predicted to be faster than cuDNN's first choice could be: nobody is asked.
  const auto depthwise =
      parse_problem("fprop:x=bf16,16x96x56x56,nhwc:w=bf16,96x1x3x3:y=bf16,16x96x56x56,nhwc:pad=1x1:groups=96");
  ASSERT_TRUE(depthwise.ok());
  const auto chosen = select(*depthwise, engines, {}, request);
  ASSERT_TRUE(chosen.ok());
  if (chosen->candidate.engine == "cuda.depthwise") {
    EXPECT_EQ((*cudnn::survey(*depthwise, *request.cuda, 0))->queries(), 0);
  }
}

}  // namespace
}  // namespace convoy
