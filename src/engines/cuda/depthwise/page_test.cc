// The example of docs/add-a-kernel-family.md: its family is compiled into this program, its kernel read from the page.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engines/cuda/depthwise/family.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"

namespace convoy::cuda {

extern const DepthwiseFamily column_family;

namespace {

std::string kernel_of_the_page() {
  std::ostringstream page;
  page << std::ifstream(CONVOY_PAGE).rdbuf();
  const std::string text = page.str(), begin = "```cuda\n";
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find("```", from) - from);
}

TEST(DepthwisePage, ItsFamilyIsRight) {
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

}  // namespace
}  // namespace convoy::cuda
