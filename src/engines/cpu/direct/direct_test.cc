#include "engines/cpu/direct/direct.h"

#include <gtest/gtest.h>

#include "engines/cpu/common/testing/engine_check.h"

namespace convoy::cpu {
namespace {

using Direct = OnIsas;

// One problem for each way the engine has of reading x, walking the sum and storing.
TEST_P(Direct, EveryPathMatchesTheOracle) {
  check_paths(direct_engine(), GetParam(),
              {
                  "fprop:x=f32,1x64x14x14,nhwc:w=f32,64x64x3x3:pad=1x1",             // padded rows, runs joined
                  "fprop:x=f32,2x64x14x14,nhwc:w=f32,128x64x1x1",                    // in place, one row
                  "fprop:x=f32,1x64x15x15,nhwc:w=f32,48x64x1x1:stride=2x2",          // in place, strided
                  "fprop:x=f32,1x24x9x9,nhwc:w=f32,40x24x3x3:dilation=2x2:pad=2x2",  // runs not joined
                  "fprop:x=f32,1x3x33x33,nchw:w=f32,64x3x7x7:y=f32,1x64x17x17,nhwc:stride=2x2:pad=3x3",
                  "fprop:x=f32,1x3x33x33,nchw:w=f32,20x3x3x3:y=f32,1x20x16x16,nchw16c:stride=2x2",
                  "fprop:x=f32,1x40x9x9,nchw16c:w=f32,24x40x3x3:pad=1x1",  // channel padding both sides
                  "fprop:x=f32,1x24x9x9,nchw8c:w=f32,40x24x3x3:pad=1x1",
                  "fprop:x=f32,1x24x9x9,nchw16c:w=f32,24x6x3x3:pad=1x1:groups=4",  // groups begin inside blocks
                  "fprop:x=f32,1x16x7x7,nhwc:w=f32,256x16x3x3:pad=1x1",            // chunks share a block's buffer
                  "fprop:x=f32,1x128x14x14,nhwc:w=f32,128x4x3x3:pad=1x1:groups=32",
                  "fprop:x=f32,1x32x9x9,nchw16c:w=f32,32x4x3x3:pad=1x1:groups=8",  // several groups a vector
                  "fprop:x=f32,1x48x11x11,nhwc:w=f32,48x8x3x3:pad=1x1:stride=2x2:groups=6",
                  "fprop:x=f32,2x32x7x7,nchw8c:w=f32,32x2x3x3:groups=16",
                  "dgrad:x=f32,1x32x9x9,nhwc:w=f32,32x4x3x3:y=f32,1x32x5x5,nhwc:stride=2x2:pad=1x1:groups=8",
                  "fprop:x=f32,1x32x12x12,nhwc:w=f32,32x1x3x3:pad=1x1:groups=32",
                  "fprop:x=f32,2x512x1x1,nhwc:w=f32,100x512x1x1",
                  "fprop:x=f32,1x16x40,nhwc:w=f32,32x16x5:pad=2:stride=2",                 // 1D
                  "fprop:x=f32,1x5x9x9x9,nhwc:w=f32,20x5x3x3x3:pad=2x2x2:dilation=2x2x2",  // 3D
                  "dgrad:x=f32,1x24x15x15,nhwc:w=f32,32x24x3x3:y=f32,1x32x8x8,nhwc:stride=2x2:pad=1x1",
                  "dgrad:x=f32,1x32x16x16,nchw16c:w=f32,32x32x4x4:y=f32,1x32x8x8,nchw16c:stride=2x2:pad=1x1",
                  "dgrad:x=f32,1x16x9x9,nhwc:w=f32,32x16x1x1:y=f32,1x32x3x3,nhwc:stride=3x3",  // phases with no tap
              });
}

TEST_P(Direct, EveryTileGivesTheSameBits) {
  check_same_bits(direct_engine(), GetParam(), "fprop:x=f32,1x10x13x13,nhwc:w=f32,72x10x3x3:pad=1x1:bias=1:act=relu");
}

INSTANTIATE_TEST_SUITE_P(Isas, Direct, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(DirectRandom, MatchesTheOracle) { EXPECT_GT(run_random(direct_engine(), 200, 1000), 150); }

TEST(DirectRefusal, NamesTheField) {
  EngineCheck how;
  std::string reason;
  run_and_compare(direct_engine(),
                  problem_of("dgrad:x=f32,1x16x40x40,nhwc:w=f32,16x16x1x1:y=f32,1x16x3x3,nhwc:stride=16x16"), how, 1,
                  &reason);
  EXPECT_EQ(reason.rfind("stride=16x16: ", 0), 0u) << reason;
}

TEST(DirectCandidate, SpellsOutTheTile) {
  PlanRequest request;
  request.cpu = cpu_features();
  const ConvProblem problem = problem_of("fprop:x=f32,1x64x14x14,nhwc:w=f32,64x64x3x3:pad=1x1");
  const auto plan = direct_engine().plan(problem, {}, request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)->candidate().knobs, default_knobs(direct_engine().configurations(problem, request)));
  EXPECT_GT(knob_or((*plan)->candidate().knobs, "positions", 0), 0);
  EXPECT_GT(knob_or((*plan)->candidate().knobs, "channel_vectors", 0), 0);
}

}  // namespace
}  // namespace convoy::cpu
