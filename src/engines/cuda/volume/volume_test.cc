// The kernels compile without spills and give the right numbers on the processor; on a GPU random problems are right.
#include "engines/cuda/volume/volume.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f16,4x32x96x96x96,ndhwc:w=f16,32x32x3x3x3,ndhwc:y=f16,4x32x96x96x96,ndhwc:pad=1x1x1:bias=1:act=relu",
    "fprop:x=f16,4x64x96x96x96,ndhwc:w=f16,32x64x3x3x3,ndhwc:y=f16,4x32x96x96x96,ndhwc:pad=1x1x1:bias=1:act=relu",
    "fprop:x=bf16,1x64x48x48x48,ndhwc:w=bf16,64x64x3x3x3,ndhwc:y=bf16,1x64x48x48x48,ndhwc:pad=1x1x1:bias=1:gamma=1:act="
    "gelu",
    "fprop:x=f16,2x16x30x30x30,ndhwc:w=f16,40x16x3x1x5,ndhwc:y=f16,2x40x28x30x26,ndhwc:bias=1:act=swish,1",
};

TEST(VolumeKernels, CompileWithoutSpills) { testing::expect_compiles(volume_engine(), kProblems, {.least = 10}); }

// Tiles that reach beyond all sides, planes in one run and in several, padding in front and none.
TEST(VolumeKernels, AreRightOnTheProcessor) {
  const char* const texts[] = {
      "fprop:x=f16,1x16x5x9x11,ndhwc:w=f16,32x16x3x3x3,ndhwc:y=f16,1x32x5x9x11,ndhwc:pad=1x1x1:bias=1:act=relu",
      "fprop:x=bf16,2x32x4x7x18,ndhwc:w=bf16,40x32x3x3x3,ndhwc:y=bf16,2x40x4x7x18,ndhwc:pad=1x1x1:bias=1:gamma=0.5",
      "fprop:x=f16,1x64x3x10x9,ndhwc:w=f16,24x64x3x3x3,ndhwc:y=f16,1x24x1x8x7,ndhwc:bias=1:act=swish,1",
      "fprop:x=f16,1x16x2x17x6,ndhwc:w=f16,8x16x3x1x5,ndhwc:y=f16,1x8x4x17x6,ndhwc:pad=2x0x2:alpha=1.5:beta=0.5",
  };
  testing::expect_right_on_the_processor(volume_engine(), texts, 6);
}

TEST(VolumeTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(volume_engine(), kProblems[0], 3); }

TEST(VolumeEngine, SaysWhatItRefuses) {
  testing::expect_refusals(
      volume_engine(), kProblems,
      {{"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x3x3,nhwc:pad=1x1", "w.dims=32x32x3x3: this engine takes volumes"},
       {"fprop:x=f16,1x32x8x8x8,ndhwc:w=f16,32x32x1x3x3,ndhwc:pad=0x1x1",
        "w.dims=32x32x1x3x3: this engine takes filters of 3 x 1 to 5 x 1 to 5"},
       {"fprop:x=f16,1x48x8x8x8,ndhwc:w=f16,32x48x3x3x3,ndhwc:pad=1x1x1",
        "w.dims=32x48x3x3x3: this engine takes 16, 32 or 64 channels to multiples of 8"},
       {"fprop:x=f16,1x32x8x8x8,ndhwc:w=f16,32x32x3x3x3:y=f16,1x32x8x8x8,ndhwc:pad=1x1x1",
        "w: this engine takes channels last"},
       {"fprop:x=f16,1x32x8x8x8,ndhwc,align=8:w=f16,32x32x3x3x3,ndhwc:y=f16,1x32x8x8x8,ndhwc:pad=1x1x1",
        "align=8: this engine copies 16 bytes at a time"},
       {"fprop:x=f16,1x32x9x9x9,ndhwc:w=f16,32x32x3x3x3,ndhwc:stride=2x2x2"},
       {"fprop:x=f16,1x64x8x8x8,ndhwc:w=f16,64x32x3x3x3,ndhwc:pad=1x1x1:groups=2"}});
}

std::string random_text(Random& kind, Random& random, const char* type) {
  const std::int64_t channels = std::int64_t{16} << kind.integer(0, 2);
  std::string x, y, filter, pad;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t taps = i == 0 ? 3 : kind.integer(1, 5), beside = random.integer(0, taps / 2),
                       in = taps + random.integer(0, 24);
    x += fmt::format("x{}", in);
    y += fmt::format("x{}", in + 2 * beside - taps + 1);
    filter += fmt::format("x{}", taps);
    pad += fmt::format("{}{}", i == 0 ? "" : "x", beside);
  }
  constexpr const char* kEpilogues[] = {"", ":bias=1:act=relu", ":bias=1:gamma=0.5:act=gelu", ":alpha=1.5:beta=0.5",
                                        ":bias=1:act=swish,1"};
  return fmt::format("fprop:x={0},{1}x{2}{3},ndhwc:w={0},{4}x{2}{5},ndhwc:y={0},{1}x{4}{6},ndhwc:pad={7}{8}", type,
                     random.integer(1, 3), channels, x, 8 * random.integer(1, 12), filter, y, pad,
                     kEpilogues[kind.integer(0, 4)]);
}

using VolumeOnAGpu = testing::PartOnAGpu;

TEST_P(VolumeOnAGpu, RandomProblemsAreRight) { check_random(volume_engine(), 80, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, VolumeOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
