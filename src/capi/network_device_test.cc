// Networks on a GPU through the C interface, on device/cuda/testing/fake_driver.cc and kernels that are compiled for
// this processor (generate/testing/fake_nvrtc.cc): another program than capi_test, since a process has one driver and
// one table of engines.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "capi/testing/c_network.h"
#include "convoy/network_plan.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "engines/table.h"
#include "network/testing/stream_engine.h"

namespace convoy {

// In place of src/engines/table.cc.
const std::vector<const Engine*>& all_engines() {
  static const testing_support::StreamEngine on_gpu, other("test.other");
  static const std::vector<const Engine*> all = {&on_gpu, &other, &reference_engine()};
  return all;
}

const std::vector<const Engine*>& engines_on(DeviceKind kind) {
  static const std::vector<const Engine*> cuda(all_engines().begin(), all_engines().end() - 1);
  static const std::vector<const Engine*> cpu(all_engines().end() - 1, all_engines().end());
  return kind == DeviceKind::cuda ? cuda : cpu;
}

namespace capi {
namespace {

namespace fs = std::filesystem;

// Before anything asks for the driver.
const bool driver_set = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  ::setenv("CONVOY_NVRTC", (folder / "fake_nvrtc/libnvrtc.so.13").c_str(), 1);
  ::setenv("CONVOY_KERNEL_CACHE", "off", 1);
  ::setenv("FAKE_MEMORY", "268435456", 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_CUDNN", "CONVOY_CUBLASLT"}) ::setenv(library, "off", 1);
  return true;
}();

struct CNetworkOnDevice : CNetwork {
  void SetUp() override {
    CNetwork::SetUp();
    options.device = "cuda:1";
    options.threads = 1;
    options.how = "uniform:nchw";  // the stand-in doesn't compile the engines' kernels, which change layouts
  }

  convoy_status enqueue(const void* input, void* output, CUstream stream) {
    return convoy_session_enqueue(session, &input, 1, &output, 1, stream);
  }
  convoy_session_info info() const {
    convoy_session_info told = CONVOY_SESSION_INFO_INIT;
    EXPECT_EQ(convoy_session_describe(session, &told), CONVOY_OK) << convoy_error();
    return told;
  }
  std::vector<float> answer() {
    EXPECT_EQ(run(values.data()), CONVOY_OK) << convoy_error();
    convoy_output output = CONVOY_OUTPUT_INIT;
    EXPECT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK) << convoy_error();
    const auto* const first = static_cast<const float*>(output.data);
    return {first, first + output.bytes / sizeof(float)};
  }

  convoy_options options = CONVOY_OPTIONS_INIT;
  std::vector<float> values = ramp();
};

TEST_F(CNetworkOnDevice, LoadsWhatADeviceNeedsWhereThereIsOne) {
  EXPECT_EQ(convoy_load_device(nullptr), CONVOY_OK) << convoy_error();
  EXPECT_EQ(convoy_load_device("cpu"), CONVOY_OK) << convoy_error();
  EXPECT_EQ(convoy_load_device("cuda:1"), CONVOY_OK) << convoy_error();  // without cuDNN there is nothing to load
  EXPECT_EQ(convoy_load_device("cuda:2"), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("device=cuda:2: ")) << convoy_error();
}

TEST_F(CNetworkOnDevice, TheHostsTensorsAndThoseThatLieThereGiveTheSame) {
  convoy_options on_processor = options;
  on_processor.device = "cpu";
  ASSERT_EQ(prepare(&on_processor), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(info().device, "cpu");
  EXPECT_EQ(info().device_bytes, 0);
  const std::vector<float> expected = answer();

  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_EQ(info().warnings, nullptr) << info().warnings;
  EXPECT_STREQ(info().device, "cuda:1");
  EXPECT_GT(info().device_bytes, 0);
  for (const convoy_step& step : convolutions()) {
    EXPECT_STREQ(step.device, "cuda:1");
    EXPECT_STREQ(step.engine, "test.stream");
  }
  std::vector<float> own;
  for (int i = 0; i < 3; ++i) {  // step by step, captured, launched
    own = answer();
    ASSERT_EQ(own.size(), expected.size());
    double worst = 0;
    for (std::size_t k = 0; k < own.size(); ++k) worst = std::max(worst, std::fabs(double{own[k]} - expected[k]));
    EXPECT_LT(worst, 1e-4 * *std::ranges::max_element(expected));
    EXPECT_GT(info().device_seconds, 0);
  }

  const auto stream = cuda::Stream::create(1);
  const auto x = cuda::DeviceMemory::allocate(1, kElements * sizeof(float), "x");
  const auto y = cuda::DeviceMemory::allocate(1, expected.size() * sizeof(float), "y");
  ASSERT_TRUE(stream.ok() && x.ok() && y.ok());
  std::copy_n(values.data(), kElements, static_cast<float*>(x->data()));
  const auto* const there = static_cast<const float*>(y->data());
  for (int i = 0; i < 3; ++i) {
    std::fill_n(static_cast<float*>(y->data()), expected.size(), NAN);
    ASSERT_EQ(enqueue(x->data(), y->data(), stream->get()), CONVOY_OK) << convoy_error();
    EXPECT_TRUE(std::equal(own.begin(), own.end(), there));
  }
  EXPECT_EQ(enqueue(values.data(), y->data(), stream->get()), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("input 'input'")) << convoy_error();
  void* none = nullptr;
  EXPECT_EQ(convoy_session_enqueue(session, nullptr, 0, &none, 1, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("0 inputs and 1 outputs given")) << convoy_error();
}

// To wake the others of a large host takes longer than the copy.
TEST_F(CNetworkOnDevice, TheThreadThatRunsCopiesInputsAlone) {
  int calls = 0;
  options.threads = 4;
  options.parallel_user = &calls;
  options.parallel_for = [](void* user, std::int32_t count, void (*body)(void*, std::int32_t), void* context) {
    ++*static_cast<int*>(user);
    for (std::int32_t i = 0; i < count; ++i) body(context, i);
  };
  constexpr std::int64_t kLarger[] = {1, 3, 160, 140};  // 260 KiB
  const convoy_shape shape = {4, kLarger};
  ASSERT_EQ(convoy_session_create(network, &shape, 1, &options, &session), CONVOY_OK) << convoy_error();
  const std::vector<float> larger(1 * 3 * 160 * 140, 0.5F);
  calls = 0;
  ASSERT_EQ(run(larger.data()), CONVOY_OK) << convoy_error();
  EXPECT_EQ(calls, 0);
}

TEST_F(CNetworkOnDevice, WhatTuningFoundAndKeptIsTaken) {
  const fs::path folder = fs::temp_directory_path() / ("convoy-network-device-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string database = folder / "tuning.db";
  options.database = database.c_str();
  options.how = nullptr;
  options.budget_seconds = 15;
  const void* inputs[] = {values.data()};
  ASSERT_EQ(convoy_network_tune(network, &kShape, 1, inputs, 1, &options, 0, nullptr, nullptr), CONVOY_OK)
      << convoy_error();
  options.budget_seconds = 0;
  std::string rows;
  const auto append = [](void* user, const char* text, std::size_t bytes) {
    static_cast<std::string*>(user)->append(text, bytes);
  };
  ASSERT_EQ(convoy_database_export(database.c_str(), append, &rows), CONVOY_OK) << convoy_error();
  EXPECT_NE(rows.find("Fake 9000"), std::string::npos) << rows;
  EXPECT_NE(rows.find("test.other"), std::string::npos) << rows;

  // The stand-in doesn't compile what uniform:nhwc needs, so that tuning compares no plans: this one is put there.
  convoy_options planned = options;
  planned.how = "uniform:nchw";
  std::string text;
  const auto keep = [](void* user, const char* plan, std::size_t bytes) {
    static_cast<std::string*>(user)->assign(plan, bytes);
  };
  ASSERT_EQ(convoy_network_plan(network, &kShape, 1, &planned, keep, &text), CONVOY_OK) << convoy_error();
  const auto plan = parse_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->header.device, "Fake 9000");
  fs::create_directories(folder / "tuning.plans");
  std::ofstream(kept_plan_path(folder / "tuning.plans", plan->header, cpu_features())) << text;
  for (const auto& [device, by_plan] : {std::pair("cuda:1", true), {"cuda:0", true}, {"cpu", false}}) {
    options.device = device;
    ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
    EXPECT_EQ(info().warnings, nullptr) << info().warnings;
    for (const convoy_step& step : convolutions()) {
      EXPECT_EQ(std::string_view(step.reason) == "plan", by_plan) << device << ": " << step.reason;
    }
  }
  fs::remove_all(folder);
}

TEST_F(CNetworkOnDevice, WhatIsNotForItIsRefused) {
  const auto refused = [&](convoy_status status, std::string_view text) {
    EXPECT_EQ(prepare(&options), status);
    EXPECT_TRUE(says(text)) << convoy_error();
  };
  options.target_sms = 3;
  refused(CONVOY_UNSUPPORTED, "target_sms=3: networks use all of a GPU's multiprocessors");
  options.target_sms = 0;
  options.device_memory_limit = -2;
  refused(CONVOY_INVALID_ARGUMENT, "device_memory_limit=-2");
  options.device_memory_limit = 1 << 20;
  refused(CONVOY_UNSUPPORTED, "not 1048576; no batch fits");
  options.device = "cuda:7";
  refused(CONVOY_INVALID_ARGUMENT, "device=cuda:7");
  options.device = nullptr;
  refused(CONVOY_INVALID_ARGUMENT, "device_memory_limit is for networks on a GPU");
  options.device_memory_limit = -1;
  options.synchronous = 1;
  refused(CONVOY_INVALID_ARGUMENT, "synchronous is for networks on a GPU");
  options.synchronous = 0;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_EQ(enqueue(values.data(), values.data(), nullptr), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("on the processor: tensors on a GPU need a network that runs there")) << convoy_error();
}

}  // namespace
}  // namespace capi
}  // namespace convoy
