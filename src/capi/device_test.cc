// The C interface on device/cuda/testing/fake_driver.cc, two GPUs of 7 multiprocessors and 1 MiB, with engines that
// compute there with the CPU's oracle: another program than capi_test, since a process has one driver and one table of
// engines. What runs on a GPU: tests/gpu.
#include "device/cuda/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "convoy.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "engines/table.h"
#include "select/testing/fake_engine.h"

namespace convoy {

using testing_support::FakeEngine;

constexpr std::size_t kWorkspace = 4096;
// What fake.noting was executed with.
struct Noted {
  void* stream;
  void* workspace;
  std::size_t workspace_bytes;
};
std::optional<Noted> noted;

// In place of src/engines/table.cc.
const std::vector<const Engine*>& all_engines() {
  static const FakeEngine slow("fake.slow", {.predicted = 2, .sleep_seconds = 0.01, .device = DeviceKind::cuda});
  static const FakeEngine quick("fake.quick", {.predicted = 1, .workspace = kWorkspace, .device = DeviceKind::cuda});
  static const FakeEngine noting("fake.noting",
                                 {.predicted = 3,
                                  .workspace = kWorkspace,
                                  .device = DeviceKind::cuda,
                                  .launch = [](const ExecContext& context) -> Result<void> {
                                    noted = {context.stream(), context.workspace, context.workspace_bytes};
                                    return {};
                                  }});
  static const std::vector<const Engine*> all = {&slow, &quick, &noting, &reference_engine()};
  return all;
}

const std::vector<const Engine*>& engines_on(DeviceKind kind) {
  static const std::vector<const Engine*> cuda(all_engines().begin(), all_engines().end() - 1);
  static const std::vector<const Engine*> cpu(all_engines().end() - 1, all_engines().end());
  return kind == DeviceKind::cuda ? cuda : cpu;
}

namespace {

// Before anything asks for the driver.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts it there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_NVRTC", "CONVOY_CUDNN"}) ::setenv(library, "off", 1);
  return true;
}();

bool says(std::string_view part) { return std::string_view(convoy_error()).find(part) != std::string_view::npos; }

cuda::DeviceMemory filled(std::size_t floats, float value, int ordinal = 1) {
  auto memory = cuda::DeviceMemory::allocate(ordinal, floats * sizeof(float), "a test");
  EXPECT_TRUE(memory.ok());
  std::fill_n(static_cast<float*>(memory->data()), floats, value);
  return std::move(*memory);
}

struct CInterfaceOnDevice : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(prepared);
    const char* text = "fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3:pad=1x1:bias=1";
    ASSERT_EQ(convoy_problem_create(text, &problem), CONVOY_OK) << convoy_error();
    options.device = "cuda:1";
  }
  void TearDown() override {
    convoy_plan_destroy(plan);
    convoy_problem_destroy(problem);
  }

  convoy_status make(const char* candidate, const void* constant_weights = nullptr) {
    convoy_plan_destroy(plan);
    return convoy_plan_create(problem, candidate, &options, constant_weights, &plan);
  }
  convoy_arguments arguments() const {
    convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
    arguments.x = x.data(), arguments.w = w.data(), arguments.out = y.data(), arguments.bias = bias.data();
    return arguments;
  }

  convoy_problem* problem = nullptr;
  convoy_plan* plan = nullptr;
  convoy_options options = CONVOY_OPTIONS_INIT;
  cuda::DeviceMemory x = filled(8 * 6 * 6, 1), w = filled(8 * 8 * 9, 2), y = filled(8 * 6 * 6, -1), bias = filled(8, 3);
};

TEST_F(CInterfaceOnDevice, ItsEnginesAnswer) {
  std::vector<std::string> engines;
  const auto keep = [](void* user, const char* engine, const char* reason, const char*, double) {
    EXPECT_EQ(reason, nullptr) << reason;
    static_cast<std::vector<std::string>*>(user)->push_back(engine);
  };
  ASSERT_EQ(convoy_query(problem, &options, keep, &engines), CONVOY_OK) << convoy_error();
  EXPECT_EQ(engines, std::vector<std::string>({"fake.slow", "fake.quick", "fake.noting"}));
  options.size = offsetof(convoy_options, device);  // an older program's: on the processor
  engines.clear();
  ASSERT_EQ(convoy_query(problem, &options, keep, &engines), CONVOY_OK) << convoy_error();
  EXPECT_EQ(engines, std::vector<std::string>({"reference"}));
}

TEST_F(CInterfaceOnDevice, TheHeuristicChoosesAmongThem) {
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(convoy_choice_candidate(choice), "fake.quick{tile=4}");
  convoy_choice_destroy(choice);
  options.rules = "* -> reference";
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("device=cuda:1: this engine runs on the CPU")) << convoy_error();
  options.fallback = 1;
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  convoy_choice_destroy(choice);
}

TEST_F(CInterfaceOnDevice, TuningMeasuresThere) {
  options.engines = "fake.quick,fake.noting";
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_tune(problem, &options, &choice), CONVOY_OK) << convoy_error();
  EXPECT_EQ(std::string(convoy_choice_candidate(choice)).substr(0, 10), "fake.quick");
  ASSERT_GE(convoy_choice_measured(choice), 2u);
  convoy_measurement last = CONVOY_MEASUREMENT_INIT;
  ASSERT_EQ(convoy_choice_measurement(choice, convoy_choice_measured(choice) - 1, &last), CONVOY_OK);
  EXPECT_EQ(std::string(last.candidate).substr(0, 11), "fake.noting");  // which writes nothing
  ASSERT_NE(last.failure, nullptr);
  EXPECT_NE(std::string(last.failure).find("cuda:1"), std::string::npos) << last.failure;
  convoy_choice_destroy(choice);
}

TEST_F(CInterfaceOnDevice, ADeviceThatIsNotThereIsAnError) {
  options.device = "cuda:2";
  EXPECT_EQ(make("fake.quick"), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("device=cuda:2: ") && says("there is cuda:0 to cuda:1")) << convoy_error();
}

TEST_F(CInterfaceOnDevice, MultiprocessorsAreCounted) {
  for (const int wanted : {-1, 8}) {
    options.target_sms = wanted;
    EXPECT_EQ(make("fake.quick"), CONVOY_INVALID_ARGUMENT);
    EXPECT_EQ(convoy_error(), "target_sms: " + std::to_string(wanted) + ": the device has 7");
  }
  options.target_sms = 7;
  EXPECT_EQ(make("fake.quick"), CONVOY_OK) << convoy_error();
}

TEST_F(CInterfaceOnDevice, PlansSayWhatTheyCantHave) {
  EXPECT_EQ(make("fake.quick", w.data()), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("constant_weights is not null: on cuda:1")) << convoy_error();
  EXPECT_EQ(make("reference"), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("device=cuda:1: this engine runs on the CPU")) << convoy_error();
}

TEST_F(CInterfaceOnDevice, ExecutionWritesTheDevicesMemory) {
  ASSERT_EQ(make("fake.quick"), CONVOY_OK) << convoy_error();
  const convoy_arguments given = arguments();
  ASSERT_EQ(convoy_plan_execute(plan, &given), CONVOY_OK) << convoy_error();
  EXPECT_EQ(static_cast<const float*>(y.data())[0], 8 * 4 * 2 + 3);  // a corner: a window of 2x2
}

TEST_F(CInterfaceOnDevice, StreamAndWorkspaceAreTheCallersOrTheDefaultAndThePools) {
  ASSERT_EQ(make("fake.noting"), CONVOY_OK) << convoy_error();
  ASSERT_EQ(convoy_plan_workspace_bytes(plan), kWorkspace);
  convoy_arguments given = arguments();
  ASSERT_EQ(convoy_plan_execute(plan, &given), CONVOY_OK) << convoy_error();
  EXPECT_EQ(noted->stream, nullptr);
  EXPECT_NE(noted->workspace, nullptr);
  EXPECT_EQ(noted->workspace_bytes, kWorkspace);
  const auto pool = cuda::workspace_pool(1);
  EXPECT_GE(*(*pool)->reserved_bytes() - *(*pool)->used_bytes(), std::int64_t{kWorkspace});  // given back to it

  const auto stream = cuda::Stream::create(1);
  const auto workspace = filled(kWorkspace / sizeof(float), 0);
  given.stream = stream->get();
  given.workspace = workspace.data();
  given.workspace_bytes = workspace.bytes();
  ASSERT_EQ(convoy_plan_execute(plan, &given), CONVOY_OK) << convoy_error();
  EXPECT_EQ(noted->stream, stream->get());
  EXPECT_EQ(noted->workspace, workspace.data());
  given.workspace_bytes = kWorkspace - 1;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("workspace_bytes=4095")) << convoy_error();
  given.workspace = static_cast<char*>(workspace.data()) + 64;
  given.workspace_bytes = kWorkspace;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "workspace is not aligned to 256 bytes");
  alignas(256) static char host[kWorkspace];
  given.workspace = host;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("workspace=0x") && says("host memory, not memory of cuda:1")) << convoy_error();
}

TEST_F(CInterfaceOnDevice, MemoryOfSomewhereElseIsNamed) {
  ASSERT_EQ(make("fake.quick"), CONVOY_OK) << convoy_error();
  alignas(64) const float host[8 * 6 * 6] = {};
  const auto there = filled(8 * 8 * 9, 0, 0);
  convoy_arguments given = arguments();
  given.x = host;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("x=0x") && says("host memory, not memory of cuda:1")) << convoy_error();
  given.x = x.data();
  given.w = there.data();
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("w=0x") && says("memory of cuda:0, and the problem runs on cuda:1")) << convoy_error();
  given.w = w.data();
  given.bias = host;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("bias=0x") && says("host memory, not memory of cuda:1")) << convoy_error();
  given.w = nullptr;
  EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "w is null, and fprop needs it");
}

TEST_F(CInterfaceOnDevice, TheCallersContextIsCurrentAfterwards) {
  std::thread([&] {
    const cuda::DriverApi& api = **cuda::make_current(0);
    CUcontext before = nullptr, after = nullptr;
    api.CtxGetCurrent(&before);
    convoy_choice* choice = nullptr;
    EXPECT_EQ(convoy_tune(problem, &options, &choice), CONVOY_OK) << convoy_error();
    EXPECT_EQ(make(convoy_choice_candidate(choice)), CONVOY_OK) << convoy_error();
    convoy_choice_destroy(choice);
    const convoy_arguments given = arguments();
    EXPECT_EQ(convoy_plan_execute(plan, &given), CONVOY_OK) << convoy_error();
    api.CtxGetCurrent(&after);
    EXPECT_NE(before, nullptr);
    EXPECT_EQ(after, before);
  }).join();
}

}  // namespace
}  // namespace convoy
