// Kernels run on the processor, without a GPU: the families without tensor cores, and the example of
// docs/add-a-kernel-family.md, whose family is compiled into this program and whose kernel is read from the page.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engines/cuda/depthwise/design.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {

extern const DepthwiseFamily column_family;

namespace {

class DepthwiseOnTheProcessor : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

std::string kernel_of_the_page() {
  std::ostringstream page;
  page << std::ifstream(CONVOY_PAGE).rdbuf();
  const std::string text = page.str(), begin = "```cuda\n";
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find("```", from) - from);
}

TEST_F(DepthwiseOnTheProcessor, ThePagesFamilyIsRight) {
  const std::string text = kernel_of_the_page();
  std::uint64_t seed = 0;
  for (const char* problem_text : {"fprop:x=f32,2x3x9x7:w=f32,6x1x3x5:pad=1x2:groups=3:bias=1:act=relu",
                                   "fprop:x=f16,1x8x10x11,nhwc:w=f16,8x1x3x3:stride=2x2:groups=8",
                                   "dgrad:x=f32,2x4x9x9:w=f32,4x1x3x3:y=f32,2x4x5x5:pad=1x1:stride=2x2:groups=4"}) {
    const ConvProblem problem = testing::problem_of(problem_text);
    const DepthwiseShape shape = depthwise_shape(problem);
    const CudaDevice device = testing::device_of(90);
    for (const DepthwiseFamily::Values& values : column_family.configurations(shape, device)) {
      EXPECT_GT(column_family.seconds(values, shape, device), 0);
      DepthwiseKernel kernel = column_family.kernel(values, shape, device);
      kernel.constants.epilogue(problem);
      KernelLaunch launch{{kernel.source, kernel.constants.text(), 90}, "depthwise", {}};
      launch.shape.grid.x = static_cast<unsigned>(kernel.blocks.grid);
      launch.shape.block.x = static_cast<unsigned>(kernel.blocks.threads);
      PlannedKernels planned{{launch}, 0, {}};
      const convoy::testing::ConvData data(problem, ++seed, convoy::testing::Fill::normal);
      EXPECT_EQ(testing::walk(planned, problem, data, text), "") << problem_text << " rows=" << values[0];
    }
  }
  EXPECT_EQ(seed, 6U);
}

// Two or three of the configurations that can run, on one multiprocessor, whose blocks have work for several.
void expect_right(std::string_view word, const char* text) {
  const ConvProblem problem = testing::problem_of(text);
  const DepthwiseShape shape = depthwise_shape(problem);
  CudaDevice device = testing::device_of(80);
  device.sm_count = 1;
  std::uint64_t seed = 0;
  for (const DepthwiseFamily* family : depthwise_families()) {
    if (family->word != word) continue;
    const auto all = family->configurations(shape, device);
    for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / 2) {
      const DepthwiseDesign design{family, all[i]};
      PlannedKernels planned = depthwise_launches(problem, shape, design, device, 0);
      const convoy::testing::ConvData data(problem, ++seed, convoy::testing::Fill::normal);
      EXPECT_EQ(testing::walk(planned, problem, data), "") << print(Candidate{text, configuration_of(design)});
    }
  }
  EXPECT_GT(seed, 0U) << text;
}

TEST_F(DepthwiseOnTheProcessor, PatchesAreRight) {
  expect_right("patch", "fprop:x=f32,2x8x9x10,nhwc:w=f32,8x1x3x3:pad=1x1:groups=8:bias=1:act=relu");
  expect_right("patch", "dgrad:x=f16,2x8x9x10,nhwc:w=f16,8x1x3x3:y=f16,2x8x5x5,nhwc:pad=1x1:stride=2x2:groups=8");
  expect_right("patch", "wgrad:x=f32,3x8x9x10,nhwc:w=f32,8x1x3x3:y=f32,3x8x9x10,nhwc:pad=1x1:groups=8");
}
TEST_F(DepthwiseOnTheProcessor, RollingStripsAreRight) {
  expect_right("rolling", "fprop:x=bf16,2x8x19x10,nhwc:w=bf16,8x1x5x5:pad=2x2:groups=8:bias=1");
}
TEST_F(DepthwiseOnTheProcessor, PlanesAreRight) {
  expect_right("planes", "fprop:x=f32,3x6x9x10:w=f32,6x1x3x3:pad=1x1:groups=6:bias=1");
  expect_right("planes", "dgrad:x=f16,2x3x9x8:w=f16,6x1x3x3:y=f16,2x6x9x8:pad=1x1:groups=3");
  expect_right("planes", "wgrad:x=f32,3x6x9x8:w=f32,6x1x3x3:y=f32,3x6x9x8:pad=1x1:groups=6");
}
TEST_F(DepthwiseOnTheProcessor, DiagonalMatricesAreRight) {
  expect_right("mma", "fprop:x=f16,2x24x10x18,nhwc:w=f16,24x1x3x3:pad=1x1:groups=24:bias=1");
  expect_right("mma", "dgrad:x=bf16,3x16x9x9,nhwc:w=bf16,16x1x2x3:y=bf16,3x16x10x9,nhwc:pad=1x1:groups=16");
}
TEST_F(DepthwiseOnTheProcessor, BandsOfPlanesAreRight) {
  expect_right("plane_bands", "fprop:x=f16,2x4x14x14:w=f16,4x1x3x3:pad=1x1:groups=4:bias=1");
  expect_right("plane_bands", "wgrad:x=bf16,3x4x14x14:w=bf16,4x1x3x3:y=bf16,3x4x14x14:pad=1x1:groups=4");
}
TEST_F(DepthwiseOnTheProcessor, BandsOfPixelsAreRight) {
  expect_right("pixel_bands", "fprop:x=bf16,2x16x14x14,nhwc:w=bf16,16x1x3x3:pad=1x1:groups=16:bias=1");
  expect_right("pixel_bands", "wgrad:x=f16,2x16x14x14,nhwc:w=f16,16x1x3x3:y=f16,2x16x14x14,nhwc:pad=1x1:groups=16");
}
TEST_F(DepthwiseOnTheProcessor, SignalsAreRight) {
  expect_right("signal", "fprop:x=f32,2x6x100:w=f32,6x1x9:pad=4:groups=6:bias=1");
  expect_right("signal", "dgrad:x=f32,2x16x100,nwc:w=f32,16x1x11:y=f32,2x16x100,nwc:pad=5:groups=16");
  expect_right("signal", "fprop:x=f16,3x5x90:w=f16,5x1x16:pad=3:stride=2:groups=5");
  expect_right("signal", "wgrad:x=f32,3x5x90:w=f32,5x1x9:y=f32,3x5x90:pad=4:groups=5");
}

}  // namespace
}  // namespace convoy::cuda
