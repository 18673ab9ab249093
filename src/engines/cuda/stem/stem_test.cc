// The kernels compile for all architectures without spills and give the right numbers on the processor; on a GPU random
// problems are right.
#include "engines/cuda/stem/stem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f16,8x3x224x224,nhwc:w=f16,64x3x7x7,nhwc:y=f16,8x64x112x112,nhwc:pad=3x3:stride=2x2:bias=1:act=relu",
    "fprop:x=f16,8x3x224x224,nchw:w=f16,32x3x3x3,nhwc:y=f16,8x32x112x112,nhwc:pad=1x1:stride=2x2:bias=1:act=swish,1",
    "fprop:x=bf16,8x3x224x224,nhwc:w=bf16,96x3x4x4,nhwc:y=bf16,8x96x56x56,nhwc:stride=4x4:bias=1",
    "fprop:x=f16,2x1x32x32x32,ndhwc:w=f16,20x1x3x3x3,ndhwc:y=f16,2x20x32x32x32,ndhwc:pad=1x1x1:bias=1:act=relu",
};

TEST(StemKernels, CompileWithoutSpills) {
  testing::expect_compiles(stem_engine(), kProblems, {.every = 7, .least = 40});
}

TEST(StemKernels, AreRightOnTheProcessor) {
  const char* const texts[] = {
      "fprop:x=f16,2x3x23x37,nhwc:w=f16,64x3x7x7,nhwc:y=f16,2x64x12x19,nhwc:pad=3x3:stride=2x2:bias=1:act=relu",
      "fprop:x=bf16,1x3x20x31,nchw:w=bf16,32x3x3x3,nhwc:y=bf16,1x32x10x16,nhwc:pad=1x1:stride=2x2:bias=1:act=swish,1",
      "fprop:x=f16,1x1x5x9x7,ndhwc:w=f16,20x1x3x3x3,ndhwc:y=f16,1x20x5x9x7,ndhwc:pad=1x2x1:dilation=1x2x1:alpha=2",
      "fprop:x=f16,2x4x50,ncw:w=f16,9x4x5,nwc:y=f16,2x9x46,nwc:gamma=1:bias=1",
  };
  testing::expect_right_on_the_processor(stem_engine(), texts, 8);
}

TEST(StemTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(stem_engine(), kProblems[0], 8); }

TEST(StemEngine, RefusesWhatItsWindowsDontHold) {
  testing::expect_refusals(stem_engine(), kProblems,
                           {{"fprop:x=f16,8x16x28x28,nhwc:w=f16,16x16x3x3,nhwc:pad=1x1",
                             "w.dims=16x16x3x3: this engine takes at most 8 channels and 256 weights a filter"},
                            {"fprop:x=f16,8x3x28x28:w=f16,16x3x3x3,nhwc:y=f16,8x16x28x28:pad=1x1",
                             "this engine takes w and y channels last, and x by strides"},
                            {"fprop:x=f16,8x3x600x28,nhwc:w=f16,16x3x3x1,nhwc:pad=128x0:dilation=128x1",
                             "dilation=128x1: this engine takes windows of at most 256"},
                            {"fprop:x=f16,8x4x28x28,nhwc:w=f16,16x2x3x3,nhwc:pad=1x1:groups=2"}});
}

// The sizes of planes of channels are compiled, too, as the distance of a pixel's channels.
std::string random_text(Random& kind, Random& random, const char* type) {
  const int dims = static_cast<int>(kind.integer(1, 3));
  const std::int64_t channels = kind.integer(1, dims == 3 ? 4 : 8), k = random.integer(1, 100);
  const bool planes = kind.integer(0, 1) != 0;
  const char* const last = dims == 1 ? "nwc" : dims == 2 ? "nhwc" : "ndhwc";
  const char* const first = dims == 1 ? "ncw" : dims == 2 ? "nchw" : "ncdhw";
  std::string x, y, filter, stride, dilation, pad;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t taps = kind.integer(1, dims == 1   ? 30
                                              : dims == 2 ? 5
                                                          : 4),
                       step = kind.integer(1, 3), apart = kind.integer(1, 2), beside = random.integer(0, taps / 2),
                       reach = apart * (taps - 1) + 1;
    const std::int64_t in = reach + (planes ? kind : random).integer(0, dims == 1 ? 300 : 20);
    const std::string mark = i == 0 ? "" : "x";
    x += fmt::format("x{}", in);
    y += fmt::format("x{}", (in + 2 * beside - reach) / step + 1);
    filter += fmt::format("x{}", taps);
    stride += fmt::format("{}{}", mark, step);
    dilation += fmt::format("{}{}", mark, apart);
    pad += fmt::format("{}{}", mark, beside);
  }
  constexpr const char* kActivations[] = {"", ":act=relu", ":act=clip,0,6", ":act=swish,1", ":act=gelu"};
  return fmt::format(
      "fprop:x={0},{1}x{2}{3},{4}:w={0},{5}x{2}{6},{7}:y={0},{1}x{5}{8},{7}:pad={9}:stride={10}:dilation={11}{12}{13}",
      type, random.integer(1, 3), channels, x, planes ? first : last, k, filter, last, y, pad, stride, dilation,
      kind.integer(0, 1) != 0 ? ":bias=1" : "", kActivations[kind.integer(0, 4)]);
}

using StemOnAGpu = testing::PartOnAGpu;

TEST_P(StemOnAGpu, RandomProblemsAreRight) { check_random(stem_engine(), 80, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, StemOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
