// The C interface on a GPU: plans run on a caller's stream, with and without a caller's workspace, and give what the
// CPU's oracle gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "convoy.h"
#include "convoy/selection.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/stream.h"
#include "engines/reference/reference.h"
#include "select/measure/problem_data.h"

namespace convoy {
namespace {

constexpr const char* kText = "fprop:x=f32,4x32x20x20,nchw:w=f32,48x32x3x3,nchw:pad=1x1:bias=1:act=relu";

bool says(std::string_view part) { return std::string_view(convoy_error()).find(part) != std::string_view::npos; }

cuda::DeviceMemory uploaded(const HostTensor& host) {
  auto memory = cuda::DeviceMemory::allocate(0, static_cast<std::size_t>(host.desc.bytes()), "a test");
  EXPECT_TRUE(memory.ok()) << memory.error().message;
  EXPECT_TRUE(cuda::copy_to_device(memory->data(), host.data.get(), memory->bytes(), nullptr).ok());
  EXPECT_TRUE(cuda::synchronize(nullptr, "a test").ok());
  return std::move(*memory);
}

class CInterfaceOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto count = cuda::device_count(); !count.ok()) GTEST_SKIP() << "skipped: " << count.error().message;
    ASSERT_TRUE(cuda::make_current(0).ok());
    ASSERT_EQ(convoy_problem_create(kText, &problem_), CONVOY_OK) << convoy_error();
    description_ = *parse_problem(kText);
    auto data = selection::ProblemData::make(description_, 1);
    ASSERT_TRUE(data.ok()) << data.error().message;
    data_ = std::move(*data);
    x_ = uploaded(data_.x), w_ = uploaded(data_.w), bias_ = uploaded(data_.bias), y_ = uploaded(data_.y);

    options_.device = "cuda:0";
  }
  void TearDown() override { convoy_problem_destroy(problem_); }

  convoy_arguments arguments(CUstream stream) const {
    convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
    arguments.x = x_.data(), arguments.w = w_.data(), arguments.bias = bias_.data(), arguments.out = y_.data();
    arguments.stream = stream;
    return arguments;
  }

  // NaN, the plan, its output on the host and compared there; all in the stream's order. "" or what is wrong.
  std::string run(const convoy_plan* plan, const convoy_arguments& arguments) const {
    const auto stream = static_cast<CUstream>(arguments.stream);
    HostTensor actual = *HostTensor::allocate(description_.y);
    if (const auto done = cuda::fill_bytes(y_.data(), 0xff, y_.bytes(), stream); !done.ok())
      return done.error().message;
    if (convoy_plan_execute(plan, &arguments) != CONVOY_OK) return convoy_error();
    if (const auto done = cuda::copy_to_host(actual.data.get(), y_.data(), y_.bytes(), stream); !done.ok()) {
      return done.error().message;
    }
    if (const auto done = cuda::synchronize(stream, "a test"); !done.ok()) return done.error().message;
    const auto team = make_cpu_team(1);
    const VerifyOptions options{.arithmetic = Arithmetic::winograd};
    const auto compared = verify_with_reference(description_, data_.args(nullptr), actual.data.get(), options, *team);
    return compared.ok() ? "" : "wrong by " + std::to_string(compared.max_error);
  }

  // Without a workspace of the caller's, then with one; on a stream and on the default stream.
  void expect_right(const char* candidate) {
    SCOPED_TRACE(candidate);
    convoy_plan* plan = nullptr;
    ASSERT_EQ(convoy_plan_create(problem_, candidate, &options_, nullptr, &plan), CONVOY_OK) << convoy_error();
    const auto stream = cuda::Stream::create(0);
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    convoy_arguments given = arguments(stream->get());
    EXPECT_EQ(run(plan, given), "");
    EXPECT_EQ(run(plan, arguments(nullptr)), "");
    if (const std::size_t bytes = convoy_plan_workspace_bytes(plan); bytes > 0) {
      const auto workspace = cuda::DeviceMemory::allocate(0, bytes, "a test");
      ASSERT_TRUE(workspace.ok()) << workspace.error().message;
      given.workspace = workspace->data();
      given.workspace_bytes = bytes;
      EXPECT_EQ(run(plan, given), "");
      given.workspace_bytes = bytes - 1;
      EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
      EXPECT_TRUE(says("workspace_bytes=")) << convoy_error();
    }
    convoy_plan_destroy(plan);
  }

  convoy_problem* problem_ = nullptr;
  convoy_options options_ = CONVOY_OPTIONS_INIT;
  ConvProblem description_;
  selection::ProblemData data_;
  cuda::DeviceMemory x_, w_, bias_, y_;
};

TEST_F(CInterfaceOnGpu, TheOracleThereIsThatOfTheProcessor) {
  if (const auto api = cuda::nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  expect_right("cuda.reference");
}

TEST_F(CInterfaceOnGpu, WhatTuningFoundRightIsRight) {
  options_.engines = "cudnn.*";
  options_.budget_seconds = 5;
  convoy_choice* choice = nullptr;
  if (convoy_tune(problem_, &options_, &choice) == CONVOY_UNSUPPORTED) GTEST_SKIP() << "skipped: " << convoy_error();
  ASSERT_NE(choice, nullptr) << convoy_error();
  const std::size_t count = std::min<std::size_t>(convoy_choice_measured(choice), 12);
  EXPECT_GT(count, 0u);
  for (std::size_t i = 0; i < count; ++i) {
    convoy_measurement measured = CONVOY_MEASUREMENT_INIT;
    ASSERT_EQ(convoy_choice_measurement(choice, i, &measured), CONVOY_OK) << convoy_error();
    if (measured.failure == nullptr) expect_right(measured.candidate);
  }
  convoy_choice_destroy(choice);
}

TEST_F(CInterfaceOnGpu, HostMemoryIsNamedAndTheCallersContextKept) {
  if (const auto api = cuda::nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  std::thread([&] {
    convoy_plan* plan = nullptr;
    ASSERT_EQ(convoy_plan_create(problem_, "cuda.reference", &options_, nullptr, &plan), CONVOY_OK) << convoy_error();
    convoy_arguments given = arguments(nullptr);
    given.x = data_.x.data.get();
    EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
    EXPECT_TRUE(says("x=0x") && says("host memory, not memory of cuda:0")) << convoy_error();
    given.x = x_.data();
    EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_OK) << convoy_error();
    CUcontext current = nullptr;
    ASSERT_EQ((*cuda::driver_of(0))->CtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    EXPECT_TRUE(cuda::synchronize(0).ok());
    convoy_plan_destroy(plan);
  }).join();
}

}  // namespace
}  // namespace convoy
