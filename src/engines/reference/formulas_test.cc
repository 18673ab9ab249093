// The oracle against sums written out by hand: passes, modes, groups, dilation, padding, scaling, layouts.
#include <cmath>
#include <limits>

#include "engines/reference/testing/literals.h"

namespace convoy::reference_testing {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();

// x = 1 2 3 4, w = 10 20 100, one channel. y[p] = 10*x[p] + 20*x[p+1] + 100*x[p+2].
TEST(OracleFprop, CrossCorrelation) {
  EXPECT_EQ(run("fprop:x=f32,1x1x4:w=f32,1x1x3", {.x = {1, 2, 3, 4}, .w = {10, 20, 100}}),
            (Values{10 * 1 + 20 * 2 + 100 * 3, 10 * 2 + 20 * 3 + 100 * 4}));
}

TEST(OracleFprop, ConvolutionReadsTheFilterBackwards) {
  EXPECT_EQ(run("fprop:x=f32,1x1x4:w=f32,1x1x3:mode=conv", {.x = {1, 2, 3, 4}, .w = {10, 20, 100}}),
            (Values{100 * 1 + 20 * 2 + 10 * 3, 100 * 2 + 20 * 3 + 10 * 4}));
}

// Two images of two channels, 1 2 | 3 4 and 5 6 | 7 8; y[n][p] = g[n][0]*x[n][0][p] + 10*g[n][1]*x[n][1][p].
TEST(OracleFprop, AGateMultipliesEachImagesChannels) {
  const Literals literals{.x = {1, 2, 3, 4, 5, 6, 7, 8}, .w = {1, 10}, .gate = {2, 3, 5, 7}};
  for (const char* const layout : {"nwc", "ncw"}) {
    EXPECT_EQ(run(std::string("fprop:x=f16,2x2x2,") + layout + ":w=f16,1x2x1:gate=1", literals),
              (Values{2 * 1 + 30 * 3, 2 * 2 + 30 * 4, 5 * 5 + 70 * 7, 5 * 6 + 70 * 8}));
  }
  // 1 + 2^-10 squared isn't a number of f16, which has 1 + 2^-9.
  const double more = 1 + 0x1p-10;
  EXPECT_EQ(run("fprop:x=f16,1x1x1:w=f16,1x1x1:y=f32,1x1x1:gate=1", {.x = {more}, .w = {1}, .gate = {more}}),
            Values{1 + 0x1p-9});
}

TEST(OracleFprop, AsymmetricPaddingStrideAndDilation) {
  // One zero before, two after: 0 1 2 3 4 0 0.
  EXPECT_EQ(run("fprop:x=f32,1x1x4:w=f32,1x1x3:pad=1/2", {.x = {1, 2, 3, 4}, .w = {10, 20, 100}}),
            (Values{20 * 1 + 100 * 2, 10 * 1 + 20 * 2 + 100 * 3, 10 * 2 + 20 * 3 + 100 * 4, 10 * 3 + 20 * 4, 10 * 4}));
  EXPECT_EQ(run("fprop:x=f32,1x1x4:w=f32,1x1x3:pad=1/2:stride=2", {.x = {1, 2, 3, 4}, .w = {10, 20, 100}}),
            (Values{20 * 1 + 100 * 2, 10 * 2 + 20 * 3 + 100 * 4, 10 * 4}));
  // Taps two apart: x[p-1], x[p+1], x[p+3].
  EXPECT_EQ(run("fprop:x=f32,1x1x4:w=f32,1x1x3:pad=1/1:dilation=2", {.x = {1, 2, 3, 4}, .w = {10, 20, 100}}),
            (Values{20 * 2 + 100 * 4, 10 * 1 + 20 * 3}));
}

TEST(OracleFprop, TwoDimensionsDifferInEverything) {
  // x is 2x3, w 1x2, stride 2x1, pad 0x1/1x0: rows 0 and 2 (padding), columns -1..1 and their right neighbours.
  EXPECT_EQ(run("fprop:x=f32,1x1x2x3:w=f32,1x1x1x2:pad=0x1/1x0:stride=2x1", {.x = {1, 2, 3, 4, 5, 6}, .w = {10, 100}}),
            (Values{100 * 1, 10 * 1 + 100 * 2, 10 * 2 + 100 * 3, 0, 0, 0}));
}

TEST(OracleFprop, ThreeDimensions) {
  // x[d,h,w] = 1..8 for 2x2x2; w is 2x1x2: sums over d and w.
  EXPECT_EQ(run("fprop:x=f32,1x1x2x2x2:w=f32,1x1x2x1x2", {.x = {1, 2, 3, 4, 5, 6, 7, 8}, .w = {1, 10, 100, 1000}}),
            (Values{1 + 20 + 500 + 6000, 3 + 40 + 700 + 8000}));
}

TEST(OracleFprop, BatchChannelsAndGroups) {
  // Two samples, two input channels, three outputs, 1 tap.
  EXPECT_EQ(run("fprop:x=f32,2x2x1:w=f32,3x2x1", {.x = {1, 2, 3, 4}, .w = {1, 10, 2, 20, 3, 30}}),
            (Values{1 + 20, 2 + 40, 3 + 60, 3 + 40, 6 + 80, 9 + 120}));
  // Two groups: outputs 0 and 1 see channel 0, outputs 2 and 3 channel 1.
  EXPECT_EQ(run("fprop:x=f32,1x2x1:w=f32,4x1x1:groups=2", {.x = {5, 7}, .w = {1, 2, 3, 4}}), (Values{5, 10, 21, 28}));
  // Two groups of two channels: outputs k see channels 2k and 2k + 1.
  EXPECT_EQ(run("fprop:x=f32,1x4x1:w=f32,2x2x1:groups=2", {.x = {1, 2, 3, 4}, .w = {1, 10, 100, 1000}}),
            (Values{1 + 20, 300 + 4000}));
}

// The transpose: x[h] = sum over p, r with p*u + r*dil - pad = h of y[p]*w[r].
TEST(OracleDgrad, ScattersWhatFpropGathers) {
  // y = 1 2, w = 10 20 100: x = 10*1, 20*1 + 10*2, 100*1 + 20*2, 100*2.
  EXPECT_EQ(run("dgrad:x=f32,1x1x4:w=f32,1x1x3:y=f32,1x1x2", {.w = {10, 20, 100}, .y = {1, 2}}),
            (Values{10, 40, 140, 200}));
  EXPECT_EQ(run("dgrad:x=f32,1x1x4:w=f32,1x1x3:y=f32,1x1x2:mode=conv", {.w = {10, 20, 100}, .y = {1, 2}}),
            (Values{100, 220, 50, 20}));
}

TEST(OracleDgrad, StrideLeavesHolesAndPaddingCuts) {
  // stride 2, 5 inputs, the last of which meets nothing: x = 10*1, 20*1, 10*2, 20*2, 0.
  EXPECT_EQ(run("dgrad:x=f32,1x1x5:w=f32,1x1x2:y=f32,1x1x2:stride=2", {.w = {10, 20}, .y = {1, 2}}),
            (Values{10, 20, 20, 40, 0}));
  // One zero before the input is cut off: x = 20*1 + 10*2, 100*1 + 20*2.
  EXPECT_EQ(run("dgrad:x=f32,1x1x2:w=f32,1x1x3:y=f32,1x1x2:pad=1/1", {.w = {10, 20, 100}, .y = {1, 2}}),
            (Values{40, 140}));
}

TEST(OracleDgrad, GroupsAndDilation) {
  // Channel 0 gathers from outputs 0 and 1, channel 1 from 2 and 3.
  EXPECT_EQ(run("dgrad:x=f32,1x2x1:w=f32,4x1x1:y=f32,1x4x1:groups=2", {.w = {1, 10, 100, 1000}, .y = {1, 2, 3, 4}}),
            (Values{1 + 20, 300 + 4000}));
  // Taps two apart: x = w0*y0, w0*y1, w1*y0, w1*y1.
  EXPECT_EQ(run("dgrad:x=f32,1x1x4:w=f32,1x1x2:y=f32,1x1x2:dilation=2", {.w = {10, 100}, .y = {1, 2}}),
            (Values{10, 20, 100, 200}));
}

// w[r] = sum over n, p of x[p*u + r*dil - pad]*y[p].
TEST(OracleWgrad, SumsOverBatchAndOutputs) {
  EXPECT_EQ(run("wgrad:x=f32,1x1x4:w=f32,1x1x3:y=f32,1x1x2", {.x = {1, 2, 3, 4}, .y = {10, 100}}),
            (Values{10 * 1 + 100 * 2, 10 * 2 + 100 * 3, 10 * 3 + 100 * 4}));
  EXPECT_EQ(run("wgrad:x=f32,1x1x4:w=f32,1x1x3:y=f32,1x1x2:mode=conv", {.x = {1, 2, 3, 4}, .y = {10, 100}}),
            (Values{430, 320, 210}));
  EXPECT_EQ(run("wgrad:x=f32,2x1x1:w=f32,1x1x1:y=f32,2x1x1", {.x = {3, 5}, .y = {10, 100}}), (Values{530}));
}

TEST(OracleWgrad, PaddingStrideDilationGroups) {
  // pad 1 before: tap 0 meets x[-1], x[1]; tap 1 x[0], x[2].
  EXPECT_EQ(run("wgrad:x=f32,1x1x3:w=f32,1x1x2:y=f32,1x1x2:pad=1/0:stride=2", {.x = {1, 2, 3}, .y = {10, 100}}),
            (Values{100 * 2, 10 * 1 + 100 * 3}));
  EXPECT_EQ(run("wgrad:x=f32,1x1x4:w=f32,1x1x2:y=f32,1x1x2:dilation=2", {.x = {1, 2, 3, 4}, .y = {10, 100}}),
            (Values{210, 430}));
  // Outputs 0 and 1 belong to channel 0, 2 and 3 to channel 1.
  EXPECT_EQ(run("wgrad:x=f32,1x2x1:w=f32,4x1x1:y=f32,1x4x1:groups=2", {.x = {2, 3}, .y = {1, 10, 100, 1000}}),
            (Values{2, 20, 300, 3000}));
}

TEST(OracleScaling, AlphaBetaAndPriorNaN) {
  const Literals literals{.x = {1, 2}, .w = {10}, .out = {5, 6}};
  EXPECT_EQ(run("fprop:x=f32,1x1x2:w=f32,1x1x1:alpha=0.5:beta=-2", literals), (Values{5 - 10, 10 - 12}));
  EXPECT_EQ(run("fprop:x=f32,1x1x2:w=f32,1x1x1:alpha=3", {.x = {1, 2}, .w = {10}, .out = {nan, nan}}),
            (Values{30, 60}));
  EXPECT_EQ(run("dgrad:x=f32,1x1x2:w=f32,1x1x1:y=f32,1x1x2:beta=1", {.w = {10}, .y = {1, 2}, .out = {7, 8}}),
            (Values{17, 28}));
  EXPECT_EQ(run("wgrad:x=f32,1x1x2:w=f32,1x1x1:y=f32,1x1x2", {.x = {1, 2}, .y = {3, 4}, .out = {nan}}), (Values{11}));
  const Values with_nan = run("fprop:x=f32,1x1x2:w=f32,1x1x1:beta=1", {.x = {1, 2}, .w = {10}, .out = {nan, 0}});
  EXPECT_TRUE(std::isnan(with_nan[0]));
  EXPECT_EQ(with_nan[1], 20);
}

TEST(OracleScaling, BiasAndResidualOfEachPass) {
  EXPECT_EQ(run("fprop:x=f32,1x1x2:w=f32,2x1x1:bias=1:gamma=10",
                {.x = {1, 2}, .w = {1, 100}, .z = {1, 2, 3, 4}, .bias = {0.5, -0.5}}),
            (Values{1 + 0.5 + 10, 2 + 0.5 + 20, 100 - 0.5 + 30, 200 - 0.5 + 40}));
  EXPECT_EQ(run("dgrad:x=f32,1x2x1:w=f32,1x2x1:y=f32,1x1x1:bias=1:gamma=-1",
                {.w = {1, 100}, .y = {3}, .z = {1, 2}, .bias = {0.5, -0.5}}),
            (Values{3 + 0.5 - 1, 300 - 0.5 - 2}));
  // What cudnn_convolution_relu is: a bias that bf16 rounds, and a z that counts for nothing.
  EXPECT_EQ(run("fprop:x=bf16,1x1x1:w=bf16,2x1x1:bias=out:gamma=0:act=relu",
                {.x = {2}, .w = {1, -1}, .z = {5, 5}, .bias = {0.5, 0.5}}),
            (Values{2.5, 0}));
  // wgrad's channel is K.
  EXPECT_EQ(run("wgrad:x=f32,1x2x1:w=f32,2x2x1:y=f32,1x2x1:bias=1", {.x = {1, 2}, .y = {10, 100}, .bias = {0.5, -0.5}}),
            (Values{10.5, 20.5, 99.5, 199.5}));
}

TEST(OracleTypes, NarrowFloatsRoundOnceAtTheEnd) {
  // 256 + 1 + 1 in bf16 (8 bits): 258; rounding after each step would give 256.
  EXPECT_EQ(run("fprop:x=bf16,1x3x1:w=bf16,1x3x1", {.x = {256, 1, 1}, .w = {1, 1, 1}}), (Values{258}));
  EXPECT_EQ(run("fprop:x=f16,1x1x2:w=f16,1x1x1", {.x = {1000, -1000}, .w = {100}}),
            (Values{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(run("fprop:x=f8_e4m3,1x1x2:w=f8_e4m3,1x1x1", {.x = {64, -64}, .w = {64}}), (Values{448, -448}));
  // f32 sums in double: 2^24 + 1 + 1 is exact only there.
  EXPECT_EQ(run("fprop:x=f32,1x3x1:w=f32,1x3x1", {.x = {16777216, 1, 1}, .w = {1, 1, 1}}), (Values{16777218}));
  EXPECT_EQ(run("fprop:x=f64,1x2x1:w=f64,1x2x1", {.x = {1, 0x1p-50}, .w = {1, 1}}), (Values{1 + 0x1p-50}));
}

TEST(OracleLayouts, EveryLayoutGivesTheSameAndPaddingIsZero) {
  Literals literals{.x = {}, .w = {}, .y = {}};
  for (int i = 0; i < 3 * 2 * 2; ++i) literals.x.push_back(i + 1);
  for (int i = 0; i < 5 * 3; ++i) literals.w.push_back(i % 4 - 1);
  const Values plain = run("fprop:x=f32,1x3x2x2,nchw:w=f32,5x3x1x1", literals);
  for (const char* layout : {"nhwc", "nchw8c", "nchw16c"}) {
    const std::string text =
        std::string("fprop:x=f32,1x3x2x2,") + layout + ":w=f32,5x3x1x1,nhwc:y=f32,1x5x2x2," + layout;
    EXPECT_EQ(run(text, literals), plain) << text;
  }
  EXPECT_EQ(run("fprop:x=f32,1x3x2x2,strides=99x1x7x20:w=f32,5x3x1x1:y=f32,1x5x2x2,strides=200x3x100x40", literals),
            plain);

  ConvProblem blocked = problem_of("fprop:x=f32,1x1x1,ncw:w=f32,3x1x1:y=f32,1x3x1,ncw8c");
  HostTensor out = tensor_of(blocked.y, {});
  const float x = 2;
  const float w[] = {1, 2, 3};
  ConvArgs args;
  args.x = &x;
  args.w = w;
  args.out = out.data.get();
  const auto team = make_cpu_team(1);
  ASSERT_TRUE((*reference_engine().plan(blocked, {}, {}))->execute(args, {*team}).ok());
  EXPECT_EQ(std::vector<float>(out.as<float>(), out.as<float>() + 8), (std::vector<float>{2, 4, 6, 0, 0, 0, 0, 0}));
}

TEST(OraclePlan, ConstantWeightsAreKept) {
  const ConvProblem problem = problem_of("fprop:x=f32,1x1x2:w=f32,1x1x1");
  float w = 10;
  PlanRequest request;
  request.constant_weights = &w;
  const auto plan = *reference_engine().plan(problem, {}, request);
  w = 0;
  const float x[] = {1, 2};
  float out[2];
  ConvArgs args;
  args.x = x;
  args.out = out;
  const auto team = make_cpu_team(1);
  ASSERT_TRUE(plan->execute(args, {*team}).ok());
  EXPECT_EQ(out[0], 10);
  EXPECT_EQ(out[1], 20);
  EXPECT_EQ(plan->retained_bytes(), sizeof(float));
}

}  // namespace
}  // namespace convoy::reference_testing
