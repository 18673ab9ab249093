// cuDNN's plans on device/cuda/testing: a driver whose captures forbid to allocate, and a cuDNN whose handles allocate.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/stages.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "engines/cudnn/capture.h"
#include "engines/cudnn/cudnn.h"
#include "engines/cudnn/handle.h"

namespace convoy::cudnn {
namespace {

// Before anything asks for them.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts them there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  ::setenv("CONVOY_CUDNN", (folder / "fake_cudnn/libcudnn.so.9").c_str(), 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_NVRTC"}) ::setenv(library, "off", 1);
  return true;
}();

class OnFakes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(prepared);
    const auto device = cuda::describe(0);
    ASSERT_TRUE(device.ok()) << device.error().message;
    request_.cuda = *device;
    ASSERT_TRUE(cuda::cudnn().ok()) << cuda::cudnn().error().message;
    for (const Engine* engine : engines()) {
      if (engine->info().name == "cudnn.eng0") engine_ = engine;
    }
    ASSERT_NE(engine_, nullptr);
  }
  Result<std::unique_ptr<ConvPlan>> plan() const {
    if (auto refusal = refuse(*engine_, problem_, request_)) return Error{ErrorCode::unsupported, refusal->reason};
    return engine_->plan(problem_, {}, request_);
  }
  // What the calling thread's captured execution of a plan says.
  Result<void> captured(const ConvPlan& plan) const {
    CONVOY_TRY(const auto launches, captured_launches(plan, problem_, 0));
    EXPECT_TRUE(launches.empty());
    return {};
  }

  PlanRequest request_;
  const ConvProblem problem_ = *parse_problem("fprop:x=f32,1x8x9x9,nhwc:w=f32,8x8x3x3,nhwc:pad=1x1");
  const Engine* engine_ = nullptr;
};

// The first plan of a process is captured at once where it keeps to a part of the device: no handle was there before.
TEST_F(OnFakes, APlanHasAHandleBeforeItIsCaptured) {
  const auto free_bytes = [] { return cuda::memory_info(0).ok() ? cuda::memory_info(0)->free_bytes : -1; };
  const std::int64_t before = free_bytes();
  request_.target_sms = 3;
  const auto first = plan();
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::int64_t after = free_bytes();
  EXPECT_LT(after, before);
  EXPECT_TRUE(captured(**first).ok());
  EXPECT_EQ(free_bytes(), after);  // none was made for the capture
}

// Another thread, all handles taken: the handle is made while it captures, in the mode that allows it, and the mode is
// put back.
TEST_F(OnFakes, ACapturingThreadGetsAHandle) {
  const auto made = plan();
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto taken = borrow_handle(**cuda::cudnn(), 0);
  ASSERT_TRUE(taken.ok());
  std::thread([&] {
    const auto executed = captured(**made);
    EXPECT_TRUE(executed.ok()) << executed.error().message;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (*cuda::driver())->ThreadExchangeStreamCaptureMode(&mode);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  }).join();
}

// The fakes do what CUDA does, or the tests above could not fail.
TEST_F(OnFakes, CapturesForbidHandles) {
  const auto api = cuda::make_current(0);
  ASSERT_TRUE(api.ok());
  const auto stream = cuda::Stream::create(0);
  ASSERT_TRUE(stream.ok());
  ASSERT_EQ((*api)->StreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ((*cuda::cudnn())->Create(&handle), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  CUgraph graph = nullptr;
  (*api)->StreamEndCapture(stream->get(), &graph);
  EXPECT_EQ((*cuda::cudnn())->Create(&handle), CUDNN_STATUS_SUCCESS);
  (*api)->MemFree(reinterpret_cast<CUdeviceptr>(handle));  // which the fake took it from
}

TEST_F(OnFakes, HandlesAreLentToOneAtATime) {
  const cuda::CudnnApi& api = **cuda::cudnn();
  cudnnHandle_t first = nullptr;
  {
    const auto one = borrow_handle(api, 0);
    const auto two = borrow_handle(api, 0);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_NE(one->get(), two->get());
    first = one->get();
  }
  const auto again = borrow_handle(api, 0);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->get(), first);  // the last that came back
  const auto elsewhere = borrow_handle(api, 1);
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_NE(elsewhere->get(), first);
}

// A graph's launches have the handle's memory in them: nobody else gets the handle while the graph lives.
TEST_F(OnFakes, AGraphKeepsTheHandleThatItCaptured) {
  const cuda::CudnnApi& api = **cuda::cudnn();
  ASSERT_TRUE(cuda::make_current(0).ok());
  const auto stream = cuda::Stream::create(0);
  ASSERT_TRUE(stream.ok());
  cudnnHandle_t kept = nullptr;
  {
    const auto graph = cuda::CapturedGraph::capture(stream->get(), [&]() -> Result<void> {
      {
        CONVOY_TRY(const Handle first, borrow_handle(api, 0));
        kept = first.get();
      }
      CONVOY_TRY(const Handle second, borrow_handle(api, 0));
      EXPECT_EQ(second.get(), kept);  // one for all of it
      return {};
    });
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    const auto other = borrow_handle(api, 0);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(other->get(), kept);
    const auto next = cuda::CapturedGraph::capture(stream->get(), [&]() -> Result<void> {
      CONVOY_TRY(const Handle own, borrow_handle(api, 0));
      EXPECT_NE(own.get(), kept);
      EXPECT_NE(own.get(), other->get());
      return {};
    });
    ASSERT_TRUE(next.ok()) << next.error().message;
  }
  const auto after = borrow_handle(api, 0);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->get(), kept);  // the last that came back
}

}  // namespace
}  // namespace convoy::cudnn
