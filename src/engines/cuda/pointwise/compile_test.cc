// Every tile, vector and form compiles for all architectures with hardly a spill, and gives the right numbers on the
// processor; no GPU is needed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "engines/cuda/testing/product_cases.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {
namespace {

using testing::device_of;
using testing::problem_of;

constexpr const char* kProblems[] = {
    "fprop:x=f16,8x256x28x28,nhwc:w=f16,512x256x1x1:bias=1:gamma=1:act=gelu",
    "fprop:x=bf16,8x16x28x28,nhwc:w=bf16,96x16x1x1:bias=1:act=swish,1",
    "fprop:x=f16,8x64x28x28,nhwc:w=f16,20x64x1x1:stride=2x2:bias=1:act=clip,0,6",
    "fprop:x=f16,1x6x1x1,nhwc:w=f16,144x6x1x1:bias=1:act=sigmoid",
    "dgrad:x=f16,2x32x32x32x32,ndhwc:w=f16,64x32x2x2x2,ndhwc:y=f16,2x64x16x16x16,ndhwc:stride=2x2x2:bias=1",
    "fprop:x=f32,8x96x28x28,nhwc:w=f32,24x96x1x1:bias=1:gamma=1:act=swish,1",
    "fprop:x=f32,8x96x28x28,nhwc:w=f32,24x96x1x1:math=tf32:bias=1:gamma=1:act=swish,1",
    "dgrad:x=f32,8x64x32x32,nhwc:w=f32,128x64x2x2,nhwc:y=f32,8x128x16x16,nhwc:stride=2x2:bias=1",
    "dgrad:x=f32,8x64x32x32,nhwc:w=f32,128x64x2x2,nhwc:y=f32,8x128x16x16,nhwc:stride=2x2:math=tf32:bias=1",
};

TEST(PointwiseKernels, CompileWithHardlyASpill) {
  // A handful, where a residual and an activation of many registers meet in the largest tile.
  testing::expect_compiles(pointwise_engine(), kProblems, {.every = 5, .most_spilled = 96, .least = 50});
}

// Sizes that no tile divides, with each tile.
TEST(PointwiseKernels, AreRightOnTheProcessor) {
  const char* const texts[] = {
      "fprop:x=f16,2x200x9x11,nhwc:w=f16,136x200x1x1:bias=1:gamma=0.5:act=relu",
      "fprop:x=f16,1x24x9x7,nhwc:w=f16,40x24x1x1:bias=1:act=gelu",
      "fprop:x=bf16,1x24x10x30,nhwc:w=bf16,96x24x1x1:bias=1:act=swish,1",
      "fprop:x=f16,2x70x9x8,nhwc:w=f16,20x70x1x1,nhwc:y=f16,2x20x5x4,nhwc:stride=2x2:alpha=1.5:beta=0.5",
      "fprop:x=f16,3x6x2x3x2,ndhwc:w=f16,15x6x1x1x1:bias=1:act=sigmoid",
      "fprop:x=f32,2x100x9x11,nhwc:w=f32,72x100x1x1:bias=1:gamma=0.5:act=relu",
      "fprop:x=f32,2x19x9x8,nhwc:w=f32,21x19x1x1,nhwc:y=f32,2x21x5x4,nhwc:stride=2x2:alpha=1.5:beta=0.5",
      "dgrad:x=f16,2x24x18x22,nhwc:w=f16,64x24x2x2,nhwc:y=f16,2x64x9x11,nhwc:stride=2x2:bias=1",
      "fprop:x=f32,2x37x9x8,nhwc:w=f32,21x37x1x1,nhwc:y=f32,2x21x5x4,nhwc:stride=2x2:math=tf32:alpha=1.5:beta=0.5",
      "dgrad:x=f32,2x24x18x22,nhwc:w=f32,60x24x2x2,nhwc:y=f32,2x60x9x11,nhwc:stride=2x2:bias=1",
      "dgrad:x=f32,1x5x3x8x15,ndhwc:w=f32,20x5x1x2x3,ndhwc:y=f32,1x20x3x4x5,ndhwc:stride=1x2x3:math=tf32",
      "dgrad:x=bf16,1x10x3x8x15,ndhwc:w=bf16,20x10x1x2x3,ndhwc:y=bf16,1x20x3x4x5,ndhwc:stride=1x2x3",
  };
  testing::expect_right_on_the_processor(pointwise_engine(), texts, 12);
}

// An infinity that is split is none, and a large float may become one.
TEST(PointwiseKernels, KeepSpecialFloatsOnTheProcessor) {
  if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  for (const char* text : {"fprop:x=f32,1x24x5x9,nhwc:w=f32,24x24x1x1:bias=1",
                           "fprop:x=f32,1x24x5x9,nhwc:w=f32,24x24x1x1:math=tf32:bias=1",
                           "dgrad:x=f32,1x6x10x18,nhwc:w=f32,24x6x2x2,nhwc:y=f32,1x24x5x9,nhwc:stride=2x2"}) {
    const ConvProblem problem = problem_of(text);
    PlannedKernels planned = pointwise_engine().planned(problem, {32, 32, 2, 1, 8}, device_of(90), 0);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const convoy::testing::ConvData data(problem, seed, convoy::testing::Fill::special);
      EXPECT_EQ(testing::walk(planned, problem, data), "") << text << ": " << seed;
    }
  }
}

// The layers of a network share what is compiled.
TEST(PointwiseKernels, KnowNoSizes) {
  const CudaDevice device = device_of(90);
  std::set<std::string> texts;
  for (const char* text : {"fprop:x=f16,8x256x28x28,nhwc:w=f16,512x256x1x1:bias=1:act=relu",
                           "fprop:x=f16,32x512x14x14,nhwc:w=f16,128x512x1x1:bias=1:act=relu",
                           "fprop:x=f16,1x1024x7x7,nhwc:w=f16,2048x1024x1x1:bias=1:act=relu"}) {
    const ConvProblem problem = problem_of(text);
    const PlannedKernels planned = pointwise_engine().planned(problem, {64, 64, 2, 2, 4}, device, 0);
    texts.insert(planned.kernels[0].request.constants);
  }
  EXPECT_EQ(texts.size(), 1U);
}

TEST(PointwiseKernels, CompiledAheadLieOnDisk) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("convoy_compiled_ahead_{}", getpid());
  setenv("CONVOY_KERNEL_CACHE", folder.c_str(), 1);  // before anything asks for this process's
  const ConvProblem problem = problem_of("fprop:x=f16,1x256x14x14,nhwc:w=f16,1024x256x1x1:bias=1:act=relu");
  const PlanRequest request{.cuda = device_of(90)};
  const std::vector<CompilationJob> all = pointwise_engine().compilations(problem, {}, request);
  ASSERT_EQ(all.size(), 1U);
  const KernelRequest kernel = pointwise_engine().kernels(problem, {}, request).kernels[0].request;
  EXPECT_FALSE(is_kept(*program_source(kernel)));
  all[0].job({});
  EXPECT_TRUE(is_kept(*program_source(kernel)));
  EXPECT_TRUE(pointwise_engine().compilations(problem, {}, request).empty());
  EXPECT_EQ(pointwise_engine().compilations(problem, {{"columns", 32}, {"rows", 32}}, request).size(), 1U);
  std::filesystem::remove_all(folder);
}

TEST(PointwiseTiles, AConfigurationSaysAllOfATile) { testing::expect_tiles(pointwise_engine(), kProblems[0], 5); }

TEST(PointwiseEngine, RefusesWhatIsNoProduct) {
  testing::expect_refusals(
      pointwise_engine(), kProblems,
      {{"fprop:x=f16,8x16x28x28,nhwc:w=f16,16x16x3x3:pad=1x1",
        "w.dims=16x16x3x3: this engine takes filters of one pixel"},
       {"dgrad:x=f16,8x16x28x28,nhwc:w=f16,16x16x3x3,nhwc:y=f16,8x16x28x28,nhwc:pad=1x1",
        "w.dims=16x16x3x3: this engine takes filters of the stride's size, 1x1"},
       {"fprop:x=f16,8x16x28x28,nhwc:w=f16,16x16x1x1:pad=1x1", "pad=1x1: this engine takes none"},
       {"dgrad:x=f16,2x16x9x8,nhwc:w=f16,16x16x2x2,nhwc:y=f16,2x16x4x4,nhwc:stride=2x2",
        "x.dims[2]=9: this engine takes y's times the stride, 8"},
       {"dgrad:x=f16,2x16x8x8,nhwc:w=f16,16x16x2x2:y=f16,2x16x4x4,nhwc:stride=2x2",
        "w: this engine takes channels last"},
       {"fprop:x=f16,8x3x28x28,nhwc:w=f16,16x3x1x1", "w.dims=16x3x1x1: this engine copies channels two at a time"},
       {"fprop:x=f16,8x16x28x28:w=f16,16x16x1x1"},
       {"fprop:x=f32,8x6x28x28,nhwc:w=f32,16x6x1x1",
        "w.dims=16x6x1x1: this engine takes 8 channels of strict f32 or more"},
       {"fprop:x=f16,8x16x28x28,nhwc,align=2:w=f16,16x16x1x1"}});
}

}  // namespace
}  // namespace convoy::cuda
