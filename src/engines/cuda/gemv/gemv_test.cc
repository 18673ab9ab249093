// The kernels compile for all architectures without spills and give the right numbers on the processor; on a GPU random
// problems are right.
#include "engines/cuda/gemv/gemv.h"

#include <gtest/gtest.h>

#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f16,1x1152x1x1,nhwc:w=f16,48x1152x1x1,nhwc:y=f16,1x48x1x1,nhwc:bias=1:act=swish,1",
    "fprop:x=bf16,32x6x1x1,nhwc:w=bf16,144x6x1x1,nhwc:y=bf16,32x144x1x1,nhwc:bias=1:act=sigmoid",
    "fprop:x=f32,3x37x2x3,nhwc:w=f32,11x37x1x1,nhwc:y=f32,3x11x2x3,nhwc:alpha=1.5:beta=0.5",
    "fprop:x=f16,2x4000x3,nwc:w=f16,9x4000x1,nwc:y=f16,2x9x3,nwc:gamma=1:act=prelu",
};

TEST(GemvKernels, CompileWithoutSpills) {
  testing::expect_compiles(gemv_engine(), kProblems, {.every = 2, .least = 40});
}

TEST(GemvKernels, AreRightOnTheProcessor) { testing::expect_right_on_the_processor(gemv_engine(), kProblems, 8); }

TEST(GemvTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(gemv_engine(), kProblems[0], 4); }

TEST(GemvEngine, SaysWhatItRefuses) {
  testing::expect_refusals(gemv_engine(), kProblems,
                           {{"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x3x3,nhwc:y=f16,1x32x8x8,nhwc:pad=1x1",
                             "w.dims=32x32x3x3: this engine takes filters of one pixel"},
                            {"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x1x1,nhwc:y=f16,1x32x4x4,nhwc:stride=2x2",
                             "stride=2x2: this engine takes stride 1 only"},
                            {"fprop:x=f16,32x32x56x56,nhwc:w=f16,32x32x1x1,nhwc:y=f16,32x32x56x56,nhwc",
                             "100352 pixels and 32 channels: this engine takes fewer"},
                            {"fprop:x=f16,1x64x1x1,nhwc:w=f16,64x32x1x1,nhwc:y=f16,1x64x1x1,nhwc:groups=2"}});
}

std::string random_text(Random& kind, Random& random, const char* type) {
  const std::int64_t unit = std::int64_t{1} << kind.integer(0, 3), most = random.integer(0, 9) == 0 ? 600 : 60;
  return testing::pointwise_text(kind, random, kind.integer(0, 4) == 0 ? "f32" : type,
                                 {.dims = static_cast<int>(random.integer(1, 3)),
                                  .n = random.integer(1, 40),
                                  .x_channels = unit * random.integer(1, most),
                                  .y_channels = random.integer(1, 200),
                                  .most_pixels = random.integer(0, 1) == 0 ? 1 : 4});
}

using GemvOnAGpu = testing::PartOnAGpu;

TEST_P(GemvOnAGpu, RandomProblemsAreRight) { check_random(gemv_engine(), 100, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, GemvOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
