// The kernels compile without spills; on a GPU random problems are right. They are not run on the processor: what
// stands for CUDA there knows no copy engine (testing/host/ptx.cuh).
#include "engines/cuda/gemm/gemm.h"

#include <gtest/gtest.h>

#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f16,128x96x56x56,nhwc:w=f16,384x96x1x1,nhwc:y=f16,128x384x56x56,nhwc:bias=1:act=gelu",
    "fprop:x=bf16,128x384x56x56,nhwc:w=bf16,96x384x1x1,nhwc:y=bf16,128x96x56x56,nhwc:bias=1:gamma=1",
    "fprop:x=f16,128x24x56x56,nhwc:w=f16,144x24x1x1,nhwc:y=f16,128x144x56x56,nhwc:bias=1:act=swish,1",
    "fprop:x=f16,128x16x112x112,nhwc:w=f16,16x16x1x1,nhwc:y=f16,128x16x112x112,nhwc:alpha=1.5:beta=0.5",
    "fprop:x=bf16,2x1152x7x7,nhwc:w=bf16,328x1152x1x1,nhwc:y=bf16,2x328x7x7,nhwc:bias=1:act=clip,0,6",
};

TEST(GemmKernels, CompileWithoutSpills) { testing::expect_compiles(gemm_engine(), kProblems, {.least = 40}); }

TEST(GemmTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(gemm_engine(), kProblems[0], 16); }

TEST(GemmEngine, SaysWhatItRefuses) {
  testing::expect_refusals(gemm_engine(), kProblems,
                           {{"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x3x3,nhwc:y=f16,1x32x8x8,nhwc:pad=1x1",
                             "w.dims=32x32x3x3: this engine takes filters of one pixel"},
                            {"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x1x1,nhwc:y=f16,1x32x10x10,nhwc:pad=1x1",
                             "pad=1x1: this engine takes none"},
                            {"fprop:x=f16,1x32x8x8,nhwc:w=f16,36x32x1x1,nhwc:y=f16,1x36x8x8,nhwc",
                             "w.dims=36x32x1x1: this engine takes multiples of 8 channels"},
                            {"fprop:x=f16,1x32x8x8,nhwc,align=8:w=f16,32x32x1x1,nhwc:y=f16,1x32x8x8,nhwc",
                             "align=8: this engine copies 16 bytes at a time"},
                            {"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x1x1,nhwc:y=f16,1x32x8x8,nhwc:beta=0.5:gamma=1",
                             "beta=0.5 and gamma=1: this engine adds one of both tensors"},
                            {"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x1x1,nhwc:y=f16,1x32x4x4,nhwc:stride=2x2"},
                            {"fprop:x=f16,1x64x8x8,nhwc:w=f16,64x32x1x1,nhwc:y=f16,1x64x8x8,nhwc:groups=2"}});
}

std::string random_text(Random& kind, Random& random, const char* type) {
  constexpr std::int64_t kPixels[] = {3000, 50, 12}, kMany[] = {20000, 140, 24};  // making data of these takes longest
  const int dims = static_cast<int>(random.integer(1, 3));
  return testing::pointwise_text(kind, random, type,
                                 {.dims = dims,
                                  .n = random.integer(1, 3),
                                  .x_channels = 8 * random.integer(1, random.integer(0, 3) == 0 ? 160 : 24),
                                  .y_channels = 8 * random.integer(1, random.integer(0, 3) == 0 ? 160 : 36),
                                  .most_pixels = (random.integer(0, 9) == 0 ? kMany : kPixels)[dims - 1]});
}

using GemmOnAGpu = testing::PartOnAGpu;

TEST_P(GemmOnAGpu, RandomProblemsAreRight) { check_random(gemm_engine(), 100, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, GemmOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
