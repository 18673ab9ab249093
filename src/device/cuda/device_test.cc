// The device layer on the real driver: on a machine with no GPU what it says then, on one with a GPU the GPU itself.
#include "device/cuda/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "device/cuda/errors.h"
#include "device/cuda/memory.h"
#include "device/cuda/module.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/observe.h"
#include "device/cuda/stream.h"

namespace convoy::cuda {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(NoDevice, IsSaidByEverything) {
  const Result<int> count = device_count();
  if (count.ok()) GTEST_SKIP() << "there is a CUDA device";
  const auto says = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::unsupported);
    EXPECT_TRUE(has(result.error().message, "no CUDA device: ")) << result.error().message;
  };
  says(count);
  says(describe(0));
  says(make_current(0));
  says(Stream::create(0));
  says(Event::create(0));
  says(DeviceMemory::allocate(0, 1024, "a test"));
  says(PinnedMemory::allocate(0, 1024, "a test"));
  says(workspace_pool(0));
  says(memory_info(0));
  says(synchronize(0));
  says(Module::load(0, {}, "a test"));
  says(observe(0));
  float on_the_host = 0;
  says(check_pointer(&on_the_host, 0, 1, "x"));
}

TEST(DriverErrors, HaveTheCallAndItsPurpose) {
  const Error error = driver_error(CUDA_ERROR_LAUNCH_FAILED, "cuCtxSynchronize", "cpu.fake");
  EXPECT_EQ(error.code, ErrorCode::device_failed);
  EXPECT_TRUE(has(error.message, "cuCtxSynchronize for cpu.fake: ")) << error.message;
  EXPECT_TRUE(has(error.message, driver().ok() ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA error 719")) << error.message;
  EXPECT_EQ(driver_error(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc", "").code, ErrorCode::out_of_memory);
  EXPECT_EQ(driver_error(CUDA_ERROR_NO_BINARY_FOR_GPU, "cuModuleLoadDataEx", "").code, ErrorCode::unsupported);
}

class Device : public testing::Test {
 protected:
  void SetUp() override {
    if (const Result<int> count = device_count(); !count.ok()) GTEST_SKIP() << "skipped: " << count.error().message;
    ASSERT_TRUE(make_current(0).ok());
  }
};

TEST_F(Device, HasPlausibleFacts) {
  const auto device = describe(0);
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_FALSE(device->name.empty());
  EXPECT_GE(device->architecture, 50);
  EXPECT_GT(device->sm_count, 0);
  EXPECT_GT(device->memory_bytes, std::int64_t{1} << 30);
  EXPECT_GT(device->l2_bytes, 0);
  EXPECT_GE(device->shared_bytes_per_block, 48 << 10);
  EXPECT_GE(device->shared_bytes_per_sm, device->shared_bytes_per_block);
  EXPECT_GE(device->registers_per_sm, 32 << 10);
  EXPECT_GE(device->threads_per_sm, 1024);
  EXPECT_GE(device->driver_version, kOldestDriver);
  const auto memory = memory_info(0);
  ASSERT_TRUE(memory.ok());
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
  const auto next = describe(*device_count());
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, ErrorCode::invalid_argument);
}

TEST_F(Device, CopiesAndFillsAreExact) {
  const auto stream = Stream::create(0);
  ASSERT_TRUE(stream.ok());
  constexpr std::size_t kWords = 1000003;
  const auto first = DeviceMemory::allocate(0, 4 * kWords, "a copy");
  const auto second = DeviceMemory::allocate(0, 4 * kWords, "its copy");
  const auto pinned = PinnedMemory::allocate(0, 4 * kWords, "a copy");
  ASSERT_TRUE(first.ok() && second.ok() && pinned.ok());
  std::vector<std::uint32_t> sent(kWords), received(kWords);
  for (std::size_t i = 0; i < kWords; ++i) sent[i] = static_cast<std::uint32_t>(i * 2654435761U);
  ASSERT_TRUE(copy_to_device(first->data(), sent.data(), 4 * kWords, stream->get()).ok());
  ASSERT_TRUE(copy_on_device(second->data(), first->data(), 4 * kWords, stream->get()).ok());
  ASSERT_TRUE(copy_to_host(pinned->data(), second->data(), 4 * kWords, stream->get()).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(std::memcmp(pinned->data(), sent.data(), 4 * kWords), 0);
  ASSERT_TRUE(fill_words(first->data(), 0x7fc00000, kWords, stream->get()).ok());
  ASSERT_TRUE(fill_bytes(first->data(), 0xab, 3, stream->get()).ok());
  ASSERT_TRUE(copy_to_host(received.data(), first->data(), 4 * kWords, stream->get()).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(received[0], 0x7fabababU);
  EXPECT_EQ(received[1], 0x7fc00000U);
  EXPECT_EQ(received[kWords - 1], 0x7fc00000U);
}

TEST_F(Device, EventsTellTimeInOrder) {
  const auto stream = Stream::create(0);
  const auto begin = Event::create(0), end = Event::create(0);
  const auto memory = DeviceMemory::allocate(0, std::size_t{256} << 20, "a fill");
  ASSERT_TRUE(stream.ok() && begin.ok() && end.ok() && memory.ok());
  ASSERT_TRUE(begin->record(stream->get()).ok());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(fill_bytes(memory->data(), 1, memory->bytes(), stream->get()).ok());
  ASSERT_TRUE(end->record(stream->get()).ok());
  ASSERT_TRUE(end->synchronize().ok());
  EXPECT_TRUE(*end->reached());
  const auto seconds = Event::seconds(*begin, *end);
  ASSERT_TRUE(seconds.ok());
  EXPECT_GT(*seconds, 1e-5);
  EXPECT_LT(*seconds, 5.0);
}

TEST_F(Device, PoolsGiveTheSameMemoryAgainAndEndBeforeTheDeviceDoes) {
  const auto pool = workspace_pool(0);
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  const auto stream = Stream::create(0);
  ASSERT_TRUE(stream.ok());
  void* first = nullptr;
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  {
    const auto memory = (*pool)->allocate(kBytes, stream->get(), "a workspace");
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    first = memory->data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0U);
    EXPECT_TRUE(check_pointer(first, 0, 256, "workspace").ok());
    ASSERT_TRUE(fill_bytes(first, 0xff, kBytes, stream->get()).ok());
  }
  {
    const auto again = (*pool)->allocate(kBytes, stream->get(), "a workspace");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->data(), first) << "in the stream's order, without waiting";
  }
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_GE(*(*pool)->reserved_bytes(), static_cast<std::int64_t>(kBytes));
  EXPECT_TRUE((*pool)->trim().ok());
  EXPECT_EQ(*(*pool)->used_bytes(), 0);
  EXPECT_EQ(*(*pool)->reserved_bytes(), 0);
}

TEST_F(Device, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  const auto before = memory_info(0);
  ASSERT_TRUE(before.ok());
  const std::size_t bytes = static_cast<std::size_t>(before->total_bytes) * 2;
  const auto says = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
    EXPECT_TRUE(has(result.error().message, "cuda:0: ") && has(result.error().message, " needed for a giant, ") &&
                has(result.error().message, " are free"))
        << result.error().message;
  };
  says(DeviceMemory::allocate(0, bytes, "a giant"));
  says((*workspace_pool(0))->allocate(bytes, nullptr, "a giant"));
  EXPECT_TRUE(DeviceMemory::allocate(0, 1 << 20, "something small").ok()) << "the device works on";
}

TEST_F(Device, PointersAreCheckedForTheirField) {
  const auto memory = DeviceMemory::allocate(0, 4096, "a tensor");
  const auto pinned = PinnedMemory::allocate(0, 4096, "a tensor");
  ASSERT_TRUE(memory.ok() && pinned.ok());
  EXPECT_TRUE(check_pointer(memory->data(), 0, 256, "x").ok());
  EXPECT_TRUE(check_pointer(static_cast<char*>(memory->data()) + 2, 0, 2, "x").ok());
  EXPECT_FALSE(check_pointer(static_cast<char*>(memory->data()) + 2, 0, 4, "x").ok());
  std::vector<float> on_the_host(16);
  const auto host = check_pointer(on_the_host.data(), 0, 4, "w");
  ASSERT_FALSE(host.ok());
  EXPECT_TRUE(has(host.error().message, "host memory, not memory of cuda:0")) << host.error().message;
  const auto fixed = check_pointer(pinned->data(), 0, 4, "w");
  ASSERT_FALSE(fixed.ok());
  EXPECT_TRUE(has(fixed.error().message, "pinned host memory")) << fixed.error().message;
  if (*device_count() > 1) {
    const auto other = DeviceMemory::allocate(1, 4096, "a tensor");
    ASSERT_TRUE(other.ok());
    const auto wrong = check_pointer(other->data(), 0, 4, "w");
    ASSERT_FALSE(wrong.ok());
    EXPECT_TRUE(has(wrong.error().message, "memory of cuda:1")) << wrong.error().message;
  }
}

TEST_F(Device, ThreadsShareItsContext) {
  CUcontext here = nullptr;
  (*driver())->CtxGetCurrent(&here);
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([here] {
      const auto scope = DeviceScope::enter(0);
      CUcontext there = nullptr;
      scope->api().CtxGetCurrent(&there);
      EXPECT_EQ(there, here);
      const auto memory = (*workspace_pool(0))->allocate(1 << 20, nullptr, "a thread");
      EXPECT_TRUE(memory.ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Device, IsObserved) {
  const auto state = observe(0);
  if (!state.ok()) GTEST_SKIP() << "skipped: " << state.error().message;
  EXPECT_TRUE(state->sm_mhz);
  const auto before = energy_joules(0);
  EXPECT_TRUE(!before.ok() || *energy_joules(0) >= *before);
}

// Compiles, loads and launches.
Result<Module> module_of(const std::string& source) {
  CONVOY_TRY(const NvrtcApi* api, nvrtc());
  nvrtcProgram program = nullptr;
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(describe(0)->architecture);
  const char* options[] = {architecture.c_str()};
  std::size_t bytes = 0;
  std::vector<char> image;
  if (api->CreateProgram(&program, source.c_str(), "test.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS ||
      api->CompileProgram(program, 1, options) != NVRTC_SUCCESS ||
      api->GetCUBINSize(program, &bytes) != NVRTC_SUCCESS) {
    return Error{ErrorCode::internal, "NVRTC failed"};
  }
  image.resize(bytes);
  api->GetCUBIN(program, image.data());
  api->DestroyProgram(&program);
  return Module::load(0, image, "test.cu");
}

TEST_F(Device, KernelsRunAndTheirErrorsNameThem) {
  if (!nvrtc().ok()) GTEST_SKIP() << "skipped: no NVRTC";
  const auto module = module_of(
      "extern \"C\" __global__ void add(float* x, float value) { extern __shared__ float s[]; s[threadIdx.x] = value;"
      " x[blockIdx.x * blockDim.x + threadIdx.x] += s[threadIdx.x]; }");
  ASSERT_TRUE(module.ok()) << module.error().message;
  constexpr int kShared = 64 << 10;
  const auto kernel = module->kernel("add", kShared);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_GT(module->resources(*kernel)->registers, 0);
  const auto missing = module->kernel("subtract");
  ASSERT_FALSE(missing.ok());
  EXPECT_TRUE(has(missing.error().message, "kernel subtract of test.cu")) << missing.error().message;

  const auto stream = Stream::create(0);
  const auto memory = DeviceMemory::allocate(0, 4 * 1024, "x");
  ASSERT_TRUE(stream.ok() && memory.ok());
  ASSERT_TRUE(fill_words(memory->data(), 0, 1024, stream->get()).ok());
  void* x = memory->data();
  float value = 1.5F;
  void* arguments[] = {&x, &value};
  const Launch shape{.grid = {.x = 4}, .block = {.x = 256}, .dynamic_shared_bytes = kShared};
  ASSERT_TRUE(launch(*kernel, shape, arguments, stream->get()).ok());
  std::vector<float> result(1024);
  ASSERT_TRUE(copy_to_host(result.data(), x, 4 * 1024, stream->get()).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(result, std::vector<float>(1024, 1.5F));

  const auto refused = launch(*kernel, {.grid = {.x = 4}, .block = {.x = 4096}}, arguments, stream->get());
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(has(refused.error().message, "kernel add, grid 4x1x1, block 4096x1x1")) << refused.error().message;
  EXPECT_NE(refused.error().code, ErrorCode::device_failed);
  EXPECT_TRUE(stream->synchronize().ok());
}

// The last: the device is lost for this process.
using DeviceLost = Device;
TEST_F(DeviceLost, IsSaidAndTheProcessLivesOn) {
  if (!nvrtc().ok()) GTEST_SKIP() << "skipped: no NVRTC";
  const auto module = module_of("extern \"C\" __global__ void stray(float* x) { *x = 1; }");
  ASSERT_TRUE(module.ok()) << module.error().message;
  const auto kernel = module->kernel("stray");
  const auto stream = Stream::create(0);
  ASSERT_TRUE(kernel.ok() && stream.ok());
  float* nowhere = reinterpret_cast<float*>(64);
  void* arguments[] = {&nowhere};
  EXPECT_TRUE(launch(*kernel, {}, arguments, stream->get()).ok()) << "launches don't wait";
  for (const Result<void>& after : {stream->synchronize(), synchronize(0)}) {
    ASSERT_FALSE(after.ok());
    EXPECT_EQ(after.error().code, ErrorCode::device_failed);
    EXPECT_TRUE(has(after.error().message, "The device is lost for this process")) << after.error().message;
  }
}

}  // namespace
}  // namespace convoy::cuda
