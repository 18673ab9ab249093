#include <gtest/gtest.h>

#include "base/cpu.h"
#include "convoy/convolution.h"
#include "engines/cpu/direct/tile_plan.h"

namespace convoy::cpu {
namespace {

// Pointwise layers are one row of positions: 784 in blocks of 252 left one thread 504, the other 280.
TEST(TileDesign, ThreadsGetAboutAsMuchToDo) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "no AVX2";
  for (const char* text :
       {"fprop:x=f32,1x256x28x28,nhwc:w=f32,128x256x1x1,nchw", "fprop:x=f32,1x512x14x14,nhwc:w=f32,144x512x1x1,nchw",
        "fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x1x1,nchw", "fprop:x=f32,1x512x7x7,nhwc:w=f32,128x512x1x1,nchw",
        "fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3,nchw:y=f32,1x64x56x56,nhwc:pad=1x1",
        "fprop:x=f32,3x64x20x20,nhwc:w=f32,64x64x3x3,nchw:y=f32,3x64x20x20,nhwc:pad=1x1"}) {
    const auto parsed = parse_problem(text);
    ASSERT_TRUE(parsed.ok()) << text;
    for (const int threads : {2, 4}) {
      TileRequest request{tile_kernels_for(DataType::f32, cpu_features().isa), &cpu_features()};
      request.threads = threads;
      const TileDesign design = design_tiles(*parsed, request);
      for (const TilePhase& phase : design.phases) {
        const Axis* axis = phase.axis;
        const auto positions = static_cast<double>(phase.images * axis[1].count * axis[2].count);
        EXPECT_LE(imbalance(phase, threads, positions), 1.2) << text << ", " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace convoy::cpu
