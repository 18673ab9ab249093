// The kernels compile for all architectures without spills and give the right numbers on the processor, special ones,
// too; on a GPU random problems are right.
#include "engines/cuda/direct/direct.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

constexpr const char* kProblems[] = {
    "fprop:x=f32,1x5x256x256x256:w=f32,5x5x3x3x3:y=f32,1x5x256x256x256:pad=4x4x4:dilation=4x4x4:bias=1:act=relu",
    "fprop:x=f16,1x5x256x256x256:w=f16,5x5x3x3x3:y=f16,1x5x256x256x256:pad=1x1x1:bias=1:act=relu",
    "fprop:x=f32,1x5x256x256x255:w=f32,3x5x1x1x1:y=f32,1x3x256x256x255:math=tf32:bias=1",
    "fprop:x=f32,2x16x40x41:w=f32,64x16x3x3,nhwc:y=f32,2x64x40x41:pad=1x1:bias=1:gamma=1:act=swish,1",
    "fprop:x=bf16,2x3x64x64:w=bf16,16x3x7x7:y=bf16,2x16x32x32:pad=3x3:stride=2x2:alpha=1.5:beta=0.5:act=prelu",
};

TEST(DirectKernels, CompileWithoutSpills) {
  testing::expect_compiles(direct_engine(), kProblems, {.every = 3, .least = 40});
}

// A thread's registers follow from its channels.
TEST(DirectKernels, CompileWithoutSpillsForAnyChannels) {
  std::vector<std::string> texts;
  for (int channels = 1; channels <= 16; ++channels) {
    texts.push_back(
        fmt::format("fprop:x={0},1x5x64x64x64:w={0},{1}x5x3x3x3:y={0},1x{1}x64x64x64:pad={2}x{2}x{2}:dilation="
                    "{2}x{2}x{2}:bias=1:act=relu",
                    channels % 2 != 0 ? "f32" : "f16", channels, channels % 3 + 1));
  }
  const std::vector<const char*> problems = [&] {
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    return pointers;
  }();
  testing::expect_compiles(direct_engine(), problems, {.every = 4, .least = 100});
}

// Rows of odd lengths and of fours, slices, every dim's dilation and padding, several channels' blocks.
constexpr const char* kSmall[] = {
    "fprop:x=f32,1x5x5x9x12:w=f32,5x5x3x3x3:y=f32,1x5x5x9x12:pad=2x2x2:dilation=2x2x2:bias=1:act=relu",
    "fprop:x=f32,2x3x4x7x11:w=f32,6x3x2x3x3,nhwc:y=f32,2x6x5x5x13:pad=1x0x2:math=tf32:bias=1:act=prelu",
    "fprop:x=f16,2x5x3x8x20:w=f16,17x5x3x3x3:y=f16,2x17x3x8x20:pad=16x5x1:dilation=16x5x1:bias=1:gamma=0.5",
    "fprop:x=bf16,3x2x19x16:w=bf16,9x2x5x4:y=bf16,3x9x6x8:pad=1x1:stride=3x2:alpha=1.5:beta=0.5",
    "fprop:x=f16,1x4x301:w=f16,3x4x7:y=f16,1x3x295:bias=1:act=gelu",
    "fprop:x=f32,2x4x8x16,align=4:w=f32,4x4x3x3:y=f32,2x4x8x16:pad=1x1:act=prelu",
};

TEST(DirectKernels, AreRightOnTheProcessor) { testing::expect_right_on_the_processor(direct_engine(), kSmall, 8); }

// An infinite weight meets no pixel beside x.
TEST(DirectKernels, KeepSpecialValues) {
  if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  const CudaDevice device = testing::device_of(90);
  for (const char* text : kSmall) {
    const ConvProblem problem = testing::problem_of(text);
    PlannedKernels planned = direct_engine().planned(problem, direct_engine().tiles(problem, device).back(), device, 0);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const convoy::testing::ConvData data(problem, seed, convoy::testing::Fill::special);
      EXPECT_EQ(testing::walk(planned, problem, data), "") << text << " seed " << seed;
    }
  }
}

TEST(DirectTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(direct_engine(), kProblems[0], 4); }

TEST(DirectEngine, SaysWhatItRefuses) {
  testing::expect_refusals(direct_engine(), kProblems,
                           {{"fprop:x=f32,1x17x8x8:w=f32,5x17x3x3:y=f32,1x5x8x8:pad=1x1",
                             "w.dims=5x17x3x3: this engine takes at most 16 channels to 64"},
                            {"fprop:x=f32,1x5x9x9:w=f32,5x5x9x1:y=f32,1x5x1x9",
                             "w.dims=5x5x9x1: this engine takes at most 7 taps along a dim"},
                            {"fprop:x=f32,1x5x9x9,nhwc:w=f32,5x5x3x3:y=f32,1x5x9x9:pad=1x1",
                             "x: this engine takes planes, a row's pixels side by side"},
                            {"fprop:x=f32,1x5x9x9:w=f32,5x5x3x3:y=f32,1x5x9x9,nhwc:pad=1x1",
                             "y: this engine takes planes, a row's pixels side by side"},
                            {"fprop:x=f32,1x1x3000000000:w=f32,1x1x1:y=f32,1x1x3000000000",
                             "x.dims=1x1x3000000000: this engine takes at most 536870912 pixels along a dim"},
                            {"fprop:x=f32,0x5x9x9:w=f32,5x5x3x3:y=f32,0x5x9x9:pad=1x1"},
                            {"fprop:x=f64,1x5x9x9:w=f64,5x5x3x3:y=f64,1x5x9x9:pad=1x1"},
                            {"fprop:x=f32,1x4x9x9:w=f32,4x2x3x3:y=f32,1x4x9x9:pad=1x1:groups=2"}});
}

// As networks of few channels have them, and any others.
std::string random_text(Random& kind, Random& random, const char* type) {
  const int dims = static_cast<int>(kind.integer(1, 3));
  const bool f32 = kind.integer(0, 1) != 0, strided = kind.integer(0, 3) == 0, fours = kind.integer(0, 1) != 0;
  const char* const of_x = dims == 1 ? "ncw" : dims == 2 ? "nchw" : "ncdhw";
  std::string x, y, filter, stride, dilation, before, after;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t taps = kind.integer(1, dims == 1   ? 7
                                              : dims == 2 ? 5
                                                          : 3),
                       step = strided ? kind.integer(1, 3) : 1, apart = kind.integer(1, 5),
                       beside = kind.integer(0, apart * (taps - 1)), reach = apart * (taps - 1) + 1;
    // Of the innermost dim both rows are fours, or any.
    std::int64_t out = random.integer(1, dims == 1 ? 400 : 24), in = (out - 1) * step + reach - beside;
    if (i == dims - 1 && fours) {
      out = 4 * random.integer(1, dims == 1 ? 100 : 12);
      in = (((out - 1) * step + reach - beside) + 3) / 4 * 4;
    }
    in = std::max<std::int64_t>(in, 1);
    const std::int64_t behind = std::max<std::int64_t>(0, (out - 1) * step + reach - beside - in);
    const std::string mark = i == 0 ? "" : "x";
    x += fmt::format("x{}", in);
    y += fmt::format("x{}", (in + beside + behind - reach) / step + 1);
    filter += fmt::format("x{}", taps);
    stride += fmt::format("{}{}", mark, step);
    dilation += fmt::format("{}{}", mark, apart);
    before += fmt::format("{}{}", mark, beside);
    after += fmt::format("{}{}", mark, behind);
  }
  constexpr const char* kEpilogues[] = {"", ":bias=1:act=relu", ":bias=1:gamma=0.5:act=gelu", ":alpha=1.5:beta=0.5",
                                        ":bias=1:act=prelu"};
  const char* const math = f32 && kind.integer(0, 1) != 0 ? ":math=tf32" : "";
  return fmt::format(
      "fprop:x={0},{1}x{2}{3},{13}:w={0},{4}x{2}{5}:y={0},{1}x{4}{6},{13}:pad={7}/{8}:stride={9}:dilation={10}{11}{12}",
      f32 ? "f32" : type, random.integer(1, 3), random.integer(1, 16), x, kind.integer(1, 20), filter, y, before, after,
      stride, dilation, math, kEpilogues[kind.integer(0, 4)], of_x);
}

using DirectOnAGpu = testing::PartOnAGpu;

TEST_P(DirectOnAGpu, RandomProblemsAreRight) { check_random(direct_engine(), 100, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, DirectOnAGpu, ::testing::Range(0, testing::kParts));

using LargeDirectOnAGpu = testing::OnAGpu;

// More elements than 31 bits count, of a channel, too.
TEST_F(LargeDirectOnAGpu, IsRightAbove2To31Elements) {
  if (!testing::full()) GTEST_SKIP() << "skipped: 15 GiB of the device's memory: CONVOY_TEST_FULL";
  for (const char* text : {"fprop:x=f16,1x5x800x800x800:w=f16,5x5x3x3x3:pad=16x16x16:dilation=16x16x16",
                           "fprop:x=bf16,1x1x1300x1300x1301:w=bf16,1x1x3x1x3:pad=1x0x1"}) {
    const ConvProblem problem = testing::problem_of(text);
    ASSERT_GT(problem.x.elements(), std::int64_t{1} << 31);
    EXPECT_EQ(testing::check_large(direct_engine(), problem, request_), "") << text;
  }
}

}  // namespace
}  // namespace convoy::cuda
