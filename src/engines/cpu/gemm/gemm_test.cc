#include "engines/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include "engines/cpu/common/testing/engine_check.h"

namespace convoy::cpu {
namespace {

using Gemm = OnIsas;

TEST_P(Gemm, EveryPathMatchesTheOracle) {
  check_paths(gemm_engine(), GetParam(),
              {
                  "fprop:x=f32,2x64x7x7,nhwc:w=f32,96x64x1x1",                  // in place, images joined
                  "fprop:x=f32,1x64x15x15,nhwc:w=f32,48x64x1x1:stride=2x2",     // in place, strided
                  "fprop:x=f32,2x24x5x5,nhwc:w=f32,40x24x3x3:pad=1x1",          // gathered, tiles cross rows
                  "fprop:x=f32,1x24x9x9,nhwc:w=f32,24x3x3x3:pad=1x1:groups=8",  // gathered, several groups
                  "fprop:x=f32,1x64x14x14,nchw:w=f32,64x64x1x1",                // planar, rows joined
                  "fprop:x=f32,1x20x14x14,nchw:w=f32,23x20x3x3:pad=1x1",        // dropped positions, rest panel
                  "fprop:x=f32,1x16x7x7,nhwc:w=f32,256x16x3x3:pad=1x1",         // chunks share a block's buffer
                  "fprop:x=f32,1x16x7x7,nchw:w=f32,256x16x3x3:pad=1x1",
                  "fprop:x=f32,1x3x40x40,nchw:w=f32,16x3x7x7:pad=3x3:stride=2x2",  // residues of the stride
                  "fprop:x=f32,1x8x9x700,nchw:w=f32,5x8x1x1:stride=3x2",           // residues no tap uses
                  "fprop:x=f32,1x40x9x9,nchw:w=f32,24x5x3x3:pad=2x2:dilation=2x2:groups=8",
                  "fprop:x=f32,2x16x300,nchw:w=f32,8x16x5:pad=2",                            // 1D
                  "fprop:x=f32,1x5x12x12x12,nchw:w=f32,5x5x3x3x3:pad=2x2x2:dilation=2x2x2",  // 3D
                  "dgrad:x=f32,1x24x15x15,nhwc:w=f32,32x24x3x3:y=f32,1x32x8x8,nhwc:stride=2x2:pad=1x1",
                  "dgrad:x=f32,1x24x16x16,nchw:w=f32,32x24x4x4:y=f32,1x32x8x8,nchw:stride=2x2:pad=1x1",
                  "dgrad:x=f32,1x16x9x9,nchw:w=f32,32x16x1x1:y=f32,1x32x3x3,nchw:stride=3x3",  // phases with no tap
              });
}

TEST_P(Gemm, EveryTileGivesTheSameBits) {
  for (const char* text : {"fprop:x=f32,1x20x13x13,nhwc:w=f32,40x20x3x3:pad=1x1:bias=1:act=relu",
                           "fprop:x=f32,1x20x13x13,nchw:w=f32,40x20x3x3:pad=1x1:bias=1:act=relu",
                           "fprop:x=f64,1x20x13x13,nhwc:w=f64,40x20x3x3:pad=1x1:bias=1:act=relu",
                           "fprop:x=f64,1x20x13x13,nchw:w=f64,40x20x3x3:pad=1x1:bias=1:act=relu"}) {
    check_same_bits(gemm_engine(), GetParam(), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Gemm, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(GemmRandom, MatchesTheOracle) { EXPECT_GT(run_random(gemm_engine(), 200, 5000), 190); }

TEST(GemmRefusal, NamesTheField) {
  EngineCheck how;
  std::string reason;
  run_and_compare(gemm_engine(),
                  problem_of("dgrad:x=f32,1x16x40x40,nchw:w=f32,16x16x1x1:y=f32,1x16x3x3,nchw:stride=16x16"), how, 1,
                  &reason);
  EXPECT_EQ(reason.rfind("stride=16x16: ", 0), 0u) << reason;
}

}  // namespace
}  // namespace convoy::cpu
