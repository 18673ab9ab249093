// The kernels compile without spills; on a GPU random problems are right.
#include "engines/cuda/igemm/igemm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f16,1x256x14x14,nhwc:w=f16,256x256x3x3,nhwc:y=f16,1x256x14x14,nhwc:pad=1x1:bias=1:act=relu",
    "fprop:x=bf16,1x512x7x7,nhwc:w=bf16,2048x512x1x1,nhwc:y=bf16,1x2048x7x7,nhwc:bias=1:gamma=1:act=relu",
    "fprop:x=f16,1x40x28x28,nhwc:w=f16,240x40x1x1,nhwc:y=f16,1x240x28x28,nhwc:bias=1:act=swish,1",
    "fprop:x=f16,1x16x9x9x9,ndhwc:w=f16,33x16x3x3x3,ndhwc:y=f16,1x33x9x9x9,ndhwc:pad=1x1x1:bias=1:act=gelu",
};

TEST(IgemmKernels, CompileWithoutSpills) {
  testing::expect_compiles(igemm_engine(), kProblems, {.every = 5, .least = 40});
}

TEST(IgemmTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(igemm_engine(), kProblems[0], 12); }

TEST(IgemmEngine, SaysWhatItRefuses) {
  testing::expect_refusals(
      igemm_engine(), kProblems,
      {{"fprop:x=f16,1x36x8x8,nhwc:w=f16,32x36x3x3,nhwc:y=f16,1x32x8x8,nhwc:pad=1x1",
        "w.dims=32x36x3x3: this engine copies channels eight at a time"},
       {"fprop:x=f16,1x64x8x8,nhwc,align=8:w=f16,32x64x3x3,nhwc:y=f16,1x32x8x8,nhwc:pad=1x1",
        "align=8: this engine copies 16 bytes at a time"},
       {"fprop:x=f16,1x8x9x900,nhwc:w=f16,32x8x1x300,nhwc:y=f16,1x32x9x601,nhwc",
        "w.dims=32x8x1x300, pad=0x0, stride=1x1, dilation=1x1: the copy engine takes smaller windows"},
       {"fprop:x=f16,1x64x8x8,nhwc:w=f16,64x32x3x3,nhwc:y=f16,1x64x8x8,nhwc:pad=1x1:groups=2"},
       {"fprop:x=f16,1x64x8x8:w=f16,64x64x3x3:y=f16,1x64x8x8:pad=1x1"}});
}

std::string random_text(Random& kind, Random& random, const char* type) {
  const int dims = static_cast<int>(random.integer(1, 3));
  const std::int64_t channels = 8 * random.integer(1, random.integer(0, 3) == 0 ? 64 : 12), k = random.integer(1, 200);
  const char* const layout = dims == 1 ? "nwc" : dims == 2 ? "nhwc" : "ndhwc";
  std::string x, y, filter, stride, dilation, pad;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t taps = random.integer(1, dims == 1 ? 9 : 3), step = random.integer(1, 3),
                       apart = random.integer(1, 2), beside = random.integer(0, taps / 2),
                       reach = apart * (taps - 1) + 1;
    const std::int64_t in = reach + random.integer(0, dims == 1 ? 100 : dims == 2 ? 20 : 6);
    const std::string mark = i == 0 ? "" : "x";
    x += fmt::format("x{}", in);
    y += fmt::format("x{}", (in + 2 * beside - reach) / step + 1);
    filter += fmt::format("x{}", taps);
    stride += fmt::format("{}{}", mark, step);
    dilation += fmt::format("{}{}", mark, apart);
    pad += fmt::format("{}{}", mark, beside);
  }
  constexpr const char* kEpilogues[] = {
      "", ":bias=1:act=relu", ":bias=1:gamma=0.5:act=gelu", ":alpha=1.5:beta=0.5", ":bias=1:act=swish,1", ":act=prelu"};
  return fmt::format(
      "fprop:x={0},{1}x{2}{3},{4}:w={0},{5}x{2}{6},{4}:y={0},{1}x{5}{7},{4}:pad={8}:stride={9}:dilation={10}{11}", type,
      random.integer(1, 3), channels, x, layout, k, filter, y, pad, stride, dilation, kEpilogues[kind.integer(0, 5)]);
}

using IgemmOnAGpu = testing::PartOnAGpu;

TEST_P(IgemmOnAGpu, RandomProblemsAreRight) { check_random(igemm_engine(), 100, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, IgemmOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
