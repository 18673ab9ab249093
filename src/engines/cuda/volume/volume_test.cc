// The kernels compile without spills and give the right numbers on the processor; on a GPU random problems are right.
#include "engines/cuda/volume/volume.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/testing/compiled.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;
using testing::device_of;
using testing::problem_of;

constexpr const char* kProblems[] = {
    "fprop:x=f16,4x32x96x96x96,ndhwc:w=f16,32x32x3x3x3,ndhwc:y=f16,4x32x96x96x96,ndhwc:pad=1x1x1:bias=1:act=relu",
    "fprop:x=f16,4x64x96x96x96,ndhwc:w=f16,32x64x3x3x3,ndhwc:y=f16,4x32x96x96x96,ndhwc:pad=1x1x1:bias=1:act=relu",
    "fprop:x=bf16,1x64x48x48x48,ndhwc:w=bf16,64x64x3x3x3,ndhwc:y=bf16,1x64x48x48x48,ndhwc:pad=1x1x1:bias=1:gamma=1:act="
    "gelu",
    "fprop:x=f16,2x16x30x30x30,ndhwc:w=f16,40x16x3x1x5,ndhwc:y=f16,2x40x28x30x26,ndhwc:bias=1:act=swish,1",
};

TEST(VolumeKernels, CompileWithoutSpills) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  int seen = 0;
  for (const char* text : kProblems) {
    const ConvProblem problem = problem_of(text);
    for (const ProductTile& tile : volume_engine().tiles(problem, device_of(90))) {
      const int target_sms = ++seen % 3 == 0 ? 66 : 0;
      const PlannedKernels planned = volume_engine().planned(problem, tile, device_of(90), target_sms);
      const KernelRequest& request = planned.kernels.front().request;
      EXPECT_LE(testing::spilled_bytes(request), target_sms > 0 ? 32 : 0) << text << " " << tile.m;
      const auto compilation = compile(request, true);  // C7510: the assembler puts wgmma one after another
      EXPECT_EQ(compilation.ok() ? compilation->log.find("C7510") : 0, std::string::npos) << compilation->log;
    }
  }
  EXPECT_GE(seen, 10);
}

// Tiles that reach beyond all sides, planes in one run and in several, padding in front and none.
TEST(VolumeKernels, AreRightOnTheProcessor) {
  if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  const char* const texts[] = {
      "fprop:x=f16,1x16x5x9x11,ndhwc:w=f16,32x16x3x3x3,ndhwc:y=f16,1x32x5x9x11,ndhwc:pad=1x1x1:bias=1:act=relu",
      "fprop:x=bf16,2x32x4x7x18,ndhwc:w=bf16,40x32x3x3x3,ndhwc:y=bf16,2x40x4x7x18,ndhwc:pad=1x1x1:bias=1:gamma=0.5",
      "fprop:x=f16,1x64x3x10x9,ndhwc:w=f16,24x64x3x3x3,ndhwc:y=f16,1x24x1x8x7,ndhwc:bias=1:act=swish,1",
      "fprop:x=f16,1x16x2x17x6,ndhwc:w=f16,8x16x3x1x5,ndhwc:y=f16,1x8x4x17x6,ndhwc:pad=2x0x2:alpha=1.5:beta=0.5",
  };
  EXPECT_GE(testing::expect_right_on_the_processor(volume_engine(), texts), 6);
}

TEST(VolumeTiles, AConfigurationSaysAllOfATile) {
  const auto tiles = volume_engine().tiles(problem_of(kProblems[0]), device_of(90));
  EXPECT_EQ(tiles.size(), 3U);
  for (const ProductTile& tile : tiles) EXPECT_EQ(volume_engine().tile_of(configuration_of(tile)), tile);
}

TEST(VolumeEngine, SaysWhatItRefuses) {
  PlanRequest request;
  request.cuda = device_of(90);
  const auto why = [&](const char* text) {
    const auto refusal = refuse(volume_engine(), problem_of(text), request);
    return refusal ? refusal->reason : "";
  };
  for (const char* text : kProblems) EXPECT_EQ(why(text), "") << text;
  EXPECT_EQ(why("fprop:x=f16,1x32x8x8,nhwc:w=f16,32x32x3x3,nhwc:pad=1x1"),
            "w.dims=32x32x3x3: this engine takes volumes");
  EXPECT_EQ(why("fprop:x=f16,1x32x8x8x8,ndhwc:w=f16,32x32x1x3x3,ndhwc:pad=0x1x1"),
            "w.dims=32x32x1x3x3: this engine takes filters of 3 x 1 to 5 x 1 to 5");
  EXPECT_EQ(why("fprop:x=f16,1x48x8x8x8,ndhwc:w=f16,32x48x3x3x3,ndhwc:pad=1x1x1"),
            "w.dims=32x48x3x3x3: this engine takes 16, 32 or 64 channels to multiples of 8");
  EXPECT_EQ(why("fprop:x=f16,1x32x8x8x8,ndhwc:w=f16,32x32x3x3x3:y=f16,1x32x8x8x8,ndhwc:pad=1x1x1"),
            "w: this engine takes channels last");
  EXPECT_EQ(why("fprop:x=f16,1x32x8x8x8,ndhwc,align=8:w=f16,32x32x3x3x3,ndhwc:y=f16,1x32x8x8x8,ndhwc:pad=1x1x1"),
            "align=8: this engine copies 16 bytes at a time");
  EXPECT_NE(why("fprop:x=f16,1x32x9x9x9,ndhwc:w=f16,32x32x3x3x3,ndhwc:stride=2x2x2"), "");
  EXPECT_NE(why("fprop:x=f16,1x64x8x8x8,ndhwc:w=f16,64x32x3x3x3,ndhwc:pad=1x1x1:groups=2"), "");
  request.cuda->shared_bytes_per_block = 7;
  EXPECT_EQ(why(kProblems[0]), "7 bytes of shared memory a block: this engine needs more");
  request.cuda = device_of(100);
  EXPECT_EQ(why(kProblems[0]), "device=cuda:0, sm_100: this engine needs sm_90a");
}

std::string random_text(Random& random, const char* type) {
  const std::int64_t channels = std::int64_t{16} << random.integer(0, 2);
  std::string x, y, filter, pad;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t taps = i == 0 ? 3 : random.integer(1, 5), beside = random.integer(0, taps / 2),
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
                     kEpilogues[random.integer(0, 4)]);
}

using VolumeOnAGpu = testing::OnAGpu;

TEST_F(VolumeOnAGpu, RandomProblemsAreRight) { EXPECT_GE(check_random(volume_engine(), 80, 17, random_text), 60); }

}  // namespace
}  // namespace convoy::cuda
