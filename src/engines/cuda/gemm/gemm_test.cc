// The kernels compile without spills; on a GPU random problems are right. They are not run on the processor: what
// stands for CUDA there knows no copy engine (testing/host/ptx.cuh).
#include "engines/cuda/gemm/gemm.h"

#include <fmt/format.h>
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
    "fprop:x=f16,128x32x112x112,nhwc:w=f16,16x32x1x1,nhwc:y=f16,128x16x112x112,nhwc:bias=1:gate=1",
    "fprop:x=bf16,128x672x14x14,nhwc:w=bf16,112x672x1x1,nhwc:y=bf16,128x112x14x14,nhwc:bias=1:gamma=1:gate=1",
    "fprop:x=f16,128x1152x7x7,nhwc:w=f16,320x1152x1x1,nhwc:y=f16,128x320x7x7,nhwc:bias=1:act=swish,1:gate=1",
    "dgrad:x=f16,8x64x512x512,nhwc:w=f16,128x64x2x2,nhwc:y=f16,8x128x256x256,nhwc:stride=2x2:bias=1",
    "dgrad:x=bf16,4x32x48x48x48,ndhwc:w=bf16,64x32x2x2x2,ndhwc:y=bf16,4x64x24x24x24,ndhwc:stride=2x2x2:bias=1:gamma=1:"
    "act="
    "relu",
    "dgrad:x=f16,8x64x64x64,strides=524288x1x8192x128:w=f16,1024x64x2x2,nhwc:y=f16,8x1024x32x32,nhwc:stride=2x2:bias=1",
};

TEST(GemmKernels, CompileWithoutSpills) { testing::expect_compiles(gemm_engine(), kProblems, {.least = 40}); }

TEST(GemmTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(gemm_engine(), kProblems[0], 16); }

TEST(GemmEngine, SaysWhatItRefuses) {
  testing::expect_refusals(
      gemm_engine(), kProblems,
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
       {"fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x1x1,nhwc:y=f16,1x32x4x4,nhwc:stride=2x2",
        "stride=2x2: this engine takes none in fprop"},
       {"dgrad:x=f16,1x32x17x16,nhwc:w=f16,64x32x2x2,nhwc:y=f16,1x64x8x8,nhwc:stride=2x2",
        "x.dims[2]=17: this engine takes y's times the stride, 16"},
       {"dgrad:x=f16,1x32x16x24,nhwc:w=f16,64x32x2x2,nhwc:y=f16,1x64x8x12,nhwc:stride=2x2",
        "x.dims=1x32x16x24, y.dims=1x64x8x12: this engine takes multiples of 16 channels of x, and of 8 "
        "pixels of y's rows, in dgrad"},
       {"dgrad:x=f16,1x24x16x16,nhwc:w=f16,64x24x2x2,nhwc:y=f16,1x64x8x8,nhwc:stride=2x2"},
       {"fprop:x=f16,1x32x8x8,strides=2304x1x288x36:w=f16,32x32x1x1,nhwc:y=f16,1x32x8x8,nhwc",
        "x: 36 elements from a pixel to the next: this engine takes multiples of 8"},
       {"fprop:x=f16,4x32x2x4,nhwc:w=f16,32x32x1x1,nhwc:y=f16,4x32x2x4,nhwc:gate=1",
        "gate=1, x.dims=4x32x2x4: this engine takes a gate of larger images"},
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

// Tiles of one image, of several, and of parts of two.
std::string random_gated(Random& kind, Random& random, const char* type) {
  const std::int64_t depth = kind.integer(0, 2), epilogue = kind.integer(0, 3);
  const std::int64_t k = 8 * (depth < 2 ? 2 * depth + random.integer(1, 2) : random.integer(5, 150));
  const std::int64_t n = random.integer(1, 20), out = 8 * random.integer(1, random.integer(0, 3) == 0 ? 60 : 20);
  constexpr std::int64_t kSizes[][2] = {{7, 7}, {14, 14}, {3, 4}, {9, 5}, {12, 31}};
  const auto& [height, width] = kSizes[kind.integer(0, 4)];
  constexpr const char* kEpilogues[] = {"", ":bias=1", ":bias=1:gamma=1", ":alpha=1.5:beta=0.5:act=relu"};
  return fmt::format("fprop:x={0},{1}x{2}x{4}x{5},nhwc:w={0},{3}x{2}x1x1,nhwc:y={0},{1}x{3}x{4}x{5},nhwc{6}:gate=1",
                     type, n, k, out, height, width, kEpilogues[epilogue]);
}

// Rows of 8 or 16 pixels times any number; taps of which a tile has a part, one or several.
std::string random_dgrad(Random& kind, Random& random, const char* type) {
  const std::int64_t depth = kind.integer(0, 2), unit = std::int64_t{16} << kind.integer(0, 2);
  const std::int64_t k = 8 * (depth < 2 ? 2 * depth + random.integer(1, 2) : random.integer(5, 60));
  const std::int64_t c = unit * (unit < 64 ? 2 * random.integer(0, 2) + 1 : random.integer(1, 4));
  const std::int64_t epilogue = kind.integer(0, 5), row = kind.integer(0, 1);
  const std::int64_t dims = random.integer(1, 3), n = random.integer(1, 3);
  const char* const layout = dims == 1 ? "nwc" : dims == 2 ? "nhwc" : "ndhwc";
  std::string x, y, filter, stride;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t s = random.integer(1, 3);
    const std::int64_t pixels = random.integer(1, dims == 1 ? 100 : 4);
    const std::int64_t size = i + 1 < dims ? random.integer(1, 20) : row == 0 ? 16 * pixels : 16 * pixels - 8;
    x += fmt::format("x{}", size * s);
    y += fmt::format("x{}", size);
    filter += fmt::format("x{}", s);
    stride += fmt::format("{}{}", i == 0 ? "" : "x", s);
  }
  constexpr const char* kEpilogues[] = {
      "", ":bias=1", ":bias=1:act=relu", ":bias=1:gamma=0.5:act=gelu", ":alpha=1.5:beta=0.5", ":bias=1:act=prelu"};
  return fmt::format("dgrad:x={0},{1}x{5}{2},{4}:w={0},{6}x{5}{7},{4}:y={0},{1}x{6}{3},{4}:stride={8}{9}", type, n, x,
                     y, layout, c, k, filter, stride, kEpilogues[epilogue]);
}

using GemmOnAGpu = testing::PartOnAGpu;

TEST_P(GemmOnAGpu, RandomProblemsAreRight) { check_random(gemm_engine(), 100, random_text); }
TEST_P(GemmOnAGpu, RandomGatedOnesAreRight) { check_random(gemm_engine(), 100, random_gated); }
TEST_P(GemmOnAGpu, RandomTransposedOnesAreRight) { check_random(gemm_engine(), 100, random_dgrad); }
INSTANTIATE_TEST_SUITE_P(Part, GemmOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
