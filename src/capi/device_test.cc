// The C interface on device/cuda/testing/fake_driver.cc, two GPUs of 7 multiprocessors that compile nothing: another
// program than capi_test, since a process has one driver. What runs on a GPU: tests/gpu.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy.h"

namespace {

// Before anything asks for the driver.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts it there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_NVRTC", "CONVOY_CUDNN"}) ::setenv(library, "off", 1);
  return true;
}();

bool says(std::string_view part) { return std::string_view(convoy_error()).find(part) != std::string_view::npos; }

struct CInterfaceOnDevice : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(prepared);
    const char* text = "fprop:x=f32,1x8x6x6,nhwc:w=f32,8x1x3x3:pad=1x1:groups=8";
    ASSERT_EQ(convoy_problem_create(text, &problem), CONVOY_OK) << convoy_error();
    options.device = "cuda:1";
  }
  void TearDown() override { convoy_problem_destroy(problem); }

  convoy_status plan(const char* candidate, const void* constant_weights = nullptr) const {
    convoy_plan* made = nullptr;
    const convoy_status status = convoy_plan_create(problem, candidate, &options, constant_weights, &made);
    convoy_plan_destroy(made);
    return status;
  }

  convoy_problem* problem = nullptr;
  convoy_options options = CONVOY_OPTIONS_INIT;
};

TEST_F(CInterfaceOnDevice, ItsEnginesAnswer) {
  std::vector<std::string> engines;
  const auto keep = [](void* user, const char* engine, const char*, const char*, double) {
    static_cast<std::vector<std::string>*>(user)->push_back(engine);
  };
  ASSERT_EQ(convoy_query(problem, &options, keep, &engines), CONVOY_OK) << convoy_error();
  EXPECT_EQ(engines.front(), "cuda.depthwise");
  EXPECT_EQ(engines.back(), "cuda.reference");
  options.size = offsetof(convoy_options, device);  // an older program's: on the processor
  engines.clear();
  ASSERT_EQ(convoy_query(problem, &options, keep, &engines), CONVOY_OK) << convoy_error();
  EXPECT_EQ(engines.back(), "reference");
}

TEST_F(CInterfaceOnDevice, TheHeuristicChoosesAmongThem) {
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  EXPECT_EQ(std::string(convoy_choice_candidate(choice)).substr(0, 14), "cuda.depthwise");
  convoy_choice_destroy(choice);
  options.rules = "* -> cpu.gemm";
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("device=cuda:1: this engine runs on the CPU")) << convoy_error();
  options.fallback = 1;
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  convoy_choice_destroy(choice);
}

TEST_F(CInterfaceOnDevice, ADeviceThatIsNotThereIsAnError) {
  options.device = "cuda:2";
  EXPECT_EQ(plan("cuda.reference"), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("device=cuda:2: ") && says("there is cuda:0 to cuda:1")) << convoy_error();
}

TEST_F(CInterfaceOnDevice, MultiprocessorsAreCounted) {
  for (const int wanted : {-1, 8}) {
    options.target_sms = wanted;
    EXPECT_EQ(plan("cuda.reference"), CONVOY_INVALID_ARGUMENT);
    EXPECT_EQ(convoy_error(), "target_sms: " + std::to_string(wanted) + ": the device has 7");
  }
}

TEST_F(CInterfaceOnDevice, PlansSayWhatTheyCantHave) {
  const float weights[8 * 9] = {};
  EXPECT_EQ(plan("cuda.reference", weights), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("constant_weights is not null: on cuda:1")) << convoy_error();
  EXPECT_EQ(plan("cpu.gemm"), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("device=cuda:1: this engine runs on the CPU")) << convoy_error();
  EXPECT_NE(plan("cuda.reference"), CONVOY_OK);
  EXPECT_TRUE(says("CONVOY_NVRTC: it is switched off")) << convoy_error();
}

}  // namespace
