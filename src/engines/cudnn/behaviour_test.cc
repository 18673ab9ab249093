// What cuDNN is said to do, seen on the first GPU: threads, parts of the device, big tensors, integers that wrap.
#include <thread>

#include "core/stages.h"
#include "engines/cudnn/capture.h"
#include "engines/cudnn/device_case.h"
#include "engines/cudnn/plan.h"
#include "engines/reference/reference.h"
#include "engines/testing/problem_of.h"

namespace convoy::cudnn {
namespace {

using convoy::testing::problem_of;
using testing::Case;
using testing::OnDevice;

class Behaviour : public OnDevice {
 protected:
  // Plans of all engines that take the problem, at their default knobs.
  std::vector<std::unique_ptr<ConvPlan>> plans(const ConvProblem& problem) const {
    std::vector<std::unique_ptr<ConvPlan>> all;
    for (const Engine* engine : engines()) {
      if (refuse(*engine, problem, request_)) continue;
      auto plan = engine->plan(problem, default_knobs(engine->configurations(problem, request_)), request_);
      if (plan) all.push_back(std::move(*plan));
    }
    return all;
  }
};

TEST_F(Behaviour, ManyThreadsRunOnePlan) {
  const ConvProblem problem = problem_of("fprop:x=bf16,8x64x28x28,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1");
  constexpr int threads = 16, times = 20;
  for (const auto& plan : plans(problem)) {
    auto first = Case::make(problem, 0);
    ASSERT_TRUE(first.ok());
    const auto expected = (*first)->run(*plan, 0);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::vector<int> wrong(threads, 0);
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        auto mine = Case::make(problem, 0);
        for (int i = 0; i < times; ++i) {
          const auto out = mine.ok() ? (*mine)->run(*plan, 0) : Result<std::vector<std::byte>>(mine.error());
          if (!out.ok()) ADD_FAILURE() << out.error().message;
          wrong[t] += !out.ok() || *out != *expected;
        }
      });
    }
    for (std::thread& thread : running) thread.join();
    const auto notes = plan->notes();
    if (std::find(notes.begin(), notes.end(), note::nondeterministic) != notes.end()) continue;
    EXPECT_EQ(wrong, std::vector<int>(threads, 0)) << print(plan->candidate());
  }
}

TEST_F(Behaviour, APartOfTheDeviceIsKeptTo) {
  const ConvProblem problem = problem_of("fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1");
  auto data = Case::make(problem, 0);
  ASSERT_TRUE(data.ok());
  const auto whole = (*data)->run(*plans(problem).front(), 0);
  request_.target_sms = request_.cuda->sm_count / 2;
  const auto kept = plans(problem);
  EXPECT_FALSE(kept.empty());
  for (const auto& plan : kept) {
    const auto launches = captured_launches(*plan, problem, 0);
    ASSERT_TRUE(launches.ok()) << launches.error().message;
    for (const Launch& launch : *launches) EXPECT_LE(launch.blocks, request_.target_sms) << launch.name;
    EXPECT_TRUE((*data)->run(*plan, 0).ok()) << print(plan->candidate());
    const auto seconds = (*data)->time(*plan, 0);
    if (seconds) RecordProperty(print(plan->candidate()), std::to_string(*seconds * 1e6));
  }
}

TEST_F(Behaviour, TensorsOfMoreThan32BitsAreRightInPieces) {
  const ConvProblem problem =
      problem_of("fprop:x=f16,1x16x528x512x512,nhwc:w=f16,16x16x3x3x3,nhwc:pad=1x1x1");  // 2.2e9 elements each
  auto data = Case::make(problem, 0);
  ASSERT_TRUE(data.ok()) << data.error().message;
  int ran = 0;
  for (const Engine* engine : engines()) {
    if (ran == 2 || refuse(*engine, problem, request_)) continue;
    const auto plan = engine->plan(problem, default_knobs(engine->configurations(problem, request_)), request_);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_NE((*plan)->description().find("pieces"), std::string::npos);
    if ((*plan)->workspace_bytes() > std::size_t{40} << 30) continue;
    ++ran;
    const auto out = (*data)->run(**plan, 0);
    ASSERT_TRUE(out.ok()) << out.error().message;
    const Dims& dims = problem.y.dims;
    int wrong = 0;
    for (int i = 0; i < 600; ++i) {
      // Corners, the seam between the pieces, anywhere.
      const std::int64_t n = 0, k = i % dims[1], q = (i * 7919) % dims[3], r = (i * 104729) % dims[4];
      const std::int64_t p = i % 3 == 0   ? (i / 3) % 2 * (dims[2] - 1)
                             : i % 3 == 1 ? dims[2] / 2 - 2 + i % 4
                                          : (i * 31) % dims[2];
      const std::int64_t at[] = {n, k, p, q, r};
      const ReferenceElement expected = reference_element(problem, (*data)->host(), at);
      const double actual = load_as_double(DataType::f16, out->data(), problem.y.offset(at));
      wrong += !(error_in_tolerances(DataType::f16, actual, expected.exact, expected.stored, expected.bound) <= 1);
    }
    EXPECT_EQ(wrong, 0) << (*plan)->description();
  }
  EXPECT_GT(ran, 0);
}

// What was fused is what one kernel computes.
TEST_F(Behaviour, CapturingCountsKernels) {
  const ConvProblem problem =
      problem_of("fprop:x=bf16,8x64x28x28,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:bias=1:gamma=1:act=relu");
  const auto all = plans(problem);
  EXPECT_FALSE(all.empty());
  for (const auto& plan : all) {
    const std::vector<std::string> stages = stages_of(*plan);
    ASSERT_EQ(stages.size(), 1u) << print(plan->candidate());
    EXPECT_NE(stages.front().find("pointwise"), std::string::npos) << stages.front();
    EXPECT_NE(stages.front().find(": conv + gamma*z + bias + relu"), std::string::npos) << stages.front();
  }
}

TEST_F(Behaviour, IntegerSumsWrap) {
  // 127 * 127 * 9 * 16384 = 2.38e9 in the middle of the image.
  const ConvProblem problem =
      problem_of("fprop:x=s8,1x16384x4x4,nhwc:w=s8,16x16384x3x3,nhwc:y=f32,1x16x4x4,nhwc:pad=1x1:compute=s32");
  auto data = Case::make(problem, 0);
  ASSERT_TRUE(data.ok());
  ASSERT_TRUE((*data)->refill(127).ok());
  const Expectation expectation(problem, (*data)->host(), {}, *team_);
  const auto all = plans(problem);
  EXPECT_FALSE(all.empty());
  for (const auto& plan : all) {
    const auto out = (*data)->run(*plan, 0);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_TRUE(expectation.compare(out->data(), Arithmetic::direct).ok()) << print(plan->candidate());
  }
}

TEST_F(Behaviour, WrongPointersAreErrors) {
  const ConvProblem problem = problem_of("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3");
  const auto all = plans(problem);
  ASSERT_FALSE(all.empty());
  auto data = Case::make(problem, 0);
  ASSERT_TRUE(data.ok());
  ConvArgs args = (*data)->device();
  args.x = nullptr;
  CudaQueue queue(nullptr);
  const auto ran = all.front()->execute(args, {queue});
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace convoy::cudnn
