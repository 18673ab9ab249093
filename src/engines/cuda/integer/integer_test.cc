// The kernel compiles for all architectures and gives the right numbers on the processor; on a GPU random problems are
// right.
#include "engines/cuda/integer/integer.h"

#include <gtest/gtest.h>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/reference/reference_kernels.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/testing/problem_generator.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {
namespace {

using convoy::testing::ConvData;
using convoy::testing::Fill;
using convoy::testing::Random;

using testing::device_of;
using testing::problem_of;

constexpr const char* kProblems[] = {
    "fprop:x=u8,2x8x9x7,nhwc:w=s8,20x8x3x3,nhwc:y=u8,2x20x9x7,nhwc:pad=1x1:bias=1:act=relu:requant=channel:zp=3,0,7",
    "fprop:x=u8,1x8x9x7,nchw:w=u8,12x4x3x2,nchw:y=s8,1x12x4x6,nchw:stride=2x1:groups=2:requant=tensor:zp=128,128,-4",
    "fprop:x=s8,1x4x6x5x4,ndhwc:w=s8,9x4x2x1x3,ndhwc:y=s32,1x9x5x5x4,ndhwc:pad=0x0x1:zp=-5,6,0",
    "fprop:x=s8,3x6x31,ncw:w=u8,16x6x5,nwc:y=f32,3x16x31,nwc:pad=2:bias=f32:requant=channel",
};

PlanRequest request_for(int architecture) {
  PlanRequest request;
  request.cuda = device_of(architecture);
  return request;
}

std::optional<ConvProblem> random_problem(Random& random, const PlanRequest& request) {
  convoy::testing::Acceptance acceptance;
  const auto options = convoy::testing::options_for(integer_engine().info());
  return convoy::testing::random_problem_for(random, integer_engine(), request, options, acceptance);
}

TEST(IntegerKernel, Compiles) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  for (const char* text : kProblems) {
    for (const int architecture : {80, 90, 100}) {
      const int target_sms = architecture == 80 ? 66 : 0;
      const auto compiled = compile(integer_launch(problem_of(text), architecture, target_sms).request);
      EXPECT_TRUE(compiled.ok()) << text << ": " << compiled.error().message;
    }
  }
}

void walk(const ConvProblem& problem, std::uint64_t seed) {
  const IntegerLaunch launch = integer_launch(problem, 90, 0);
  const ConvData data(problem, seed, seed % 3 == 0 ? Fill::limits : Fill::normal);
  const auto source = program_source(launch.request);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const auto kernel = testing::HostKernel::compile(*source, "integer");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto run = [&](const ConvArgs& args, bool backwards) {
    ReferenceArgs given = reference_args(problem, args);
    void* out = args.out;
    void* const arguments[] = {&given, &out};
    return kernel->run(arguments, launch.shape, backwards);
  };
  EXPECT_EQ(testing::walk(problem, data, run), "") << print(problem);
}

TEST(IntegerKernel, IsRightOnTheProcessor) {
  if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  std::uint64_t seed = 0;
  for (const char* text : kProblems) walk(problem_of(text), ++seed);
  Random random(5);
  for (int i = 0; i < 12; ++i) {
    const auto problem = random_problem(random, request_for(90));
    ASSERT_TRUE(problem);
    walk(*problem, ++seed);
  }
}

TEST(IntegerEngine, RefusesWhatItDoesNotCompute) {
  const PlanRequest request = request_for(90);
  const auto why = [&](const char* text) {
    const auto refusal = refuse(integer_engine(), problem_of(text), request);
    return refusal ? refusal->reason : "";
  };
  for (const char* text : kProblems) EXPECT_EQ(why(text), "");
  EXPECT_NE(why("fprop:x=f32,1x4x5x5:w=f32,8x4x3x3"), "");
  EXPECT_EQ(why("fprop:x=s8,1x8x5x5,nchw8c:w=s8,8x8x1x1:y=s32,1x8x5x5,nchw"),
            "this engine takes layouts without blocks of channels");
}

using IntegerOnAGpu = testing::OnAGpu;

TEST_F(IntegerOnAGpu, RandomProblemsAreRight) {
  Random random(11);
  for (int i = 0; i < 100; ++i) {
    const auto problem = random_problem(random, request_);
    ASSERT_TRUE(problem);
    const ConvData data(*problem, static_cast<std::uint64_t>(i), i % 3 == 0 ? Fill::limits : Fill::normal);
    request_.target_sms = i % 7 == 0 ? 20 : 0;
    const auto plan = integer_engine().plan(*problem, {}, request_);
    ASSERT_TRUE(plan.ok()) << print(*problem) << ": " << plan.error().message;
    EXPECT_EQ(testing::run_on_device(**plan, *problem, data, *request_.cuda, false).failure, "") << print(*problem);
  }
}

}  // namespace
}  // namespace convoy::cuda
