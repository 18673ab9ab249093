// The device layer on testing/fake_driver.cc: two devices of 1 MiB, on every machine.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"
#include "device/cuda/measuring_lock.h"
#include "device/cuda/memory.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/observe.h"
#include "device/cuda/stream.h"
#include "device/cuda/tensor_map.h"

namespace convoy::cuda {
namespace {

// Before anything asks for the driver.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts it there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  ::setenv("CONVOY_NVML", "off", 1);
  return true;
}();

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(FakeDriver, IsDescribed) {
  ASSERT_TRUE(prepared);
  ASSERT_TRUE(driver().ok()) << driver().error().message;
  EXPECT_EQ(driver_report().from, "CONVOY_CUDA_DRIVER");
  EXPECT_EQ(driver_report().version, "CUDA 13.0");
  EXPECT_EQ(*device_count(), 2);
  const Result<CudaDevice> device = describe(1);
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ(device->name, "Fake 9000");
  EXPECT_EQ(device->architecture, 90);
  EXPECT_EQ(device->memory_bytes, 1 << 20);
  EXPECT_EQ(device->driver_version, 13000);
  EXPECT_EQ(device->driver, "");  // NVML is off
  EXPECT_TRUE(has(nvml().error().message, "CONVOY_NVML: it is switched off")) << nvml().error().message;
  EXPECT_FALSE(observe(0).ok());
}

TEST(FakeDriver, IsNamedByText) {
  EXPECT_EQ(*parse_device("cpu"), std::nullopt);
  EXPECT_EQ(*parse_device("cuda"), 0);
  EXPECT_EQ(*parse_device("cuda:0"), 0);
  EXPECT_EQ(*parse_device("cuda:63"), 63);
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:64", "cuda:99999", "cuda:1x", "cuda1",
                           "cuda:99999999999999999999"}) {
    const auto device = parse_device(text);
    ASSERT_FALSE(device.ok()) << text;
    EXPECT_EQ(device.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(device.error().message, std::string("'") + text + "' is not a device; cpu, cuda and cuda:N are");
  }
}

TEST(FakeDriver, AllSmsAreOneTargetHoweverTheyAreAskedFor) {
  const Result<CudaDevice> device = describe(0);
  EXPECT_EQ(*target_sms(*device, 0), 0);
  EXPECT_EQ(*target_sms(*device, 3), 3);
  EXPECT_EQ(*target_sms(*device, 7), 0);
  EXPECT_EQ(target_sms(*device, 8).error().message, "8: the device has 7");
  EXPECT_FALSE(target_sms(*device, -1).ok());
}

TEST(FakeDriver, AGridIsNoLargerThanWhatSomeSmsRunAtOnce) {
  const auto grid = [](int sms, unsigned blocks, unsigned threads) {
    Launch shape{.grid = {blocks}, .block = {threads}, .overlapped = true};
    // On a thread that has no context yet, as plans are made on.
    Result<void> kept;
    std::thread([&] { kept = keep_within(0, sms, Kernel{}, shape); }).join();
    EXPECT_TRUE(kept.ok()) << kept.error().message;
    EXPECT_FALSE(shape.overlapped);
    return shape.grid.x;
  };
  EXPECT_EQ(grid(3, 1000, 256), 12U);
  EXPECT_EQ(grid(3, 1000, 512), 6U);
  EXPECT_EQ(grid(3, 5, 256), 5U);  // smaller already
}

TEST(FakeDriver, DevicesThatAreNotThereAreNamed) {
  for (const int ordinal : {-1, 2, 1000}) {
    const auto device = describe(ordinal);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(has(device.error().message, "there is cuda:0 to cuda:1")) << device.error().message;
    EXPECT_FALSE(make_current(ordinal).ok());
    EXPECT_FALSE(workspace_pool(ordinal).ok());
    EXPECT_FALSE(DeviceMemory::allocate(ordinal, 16, "a test").ok());
  }
}

TEST(FakeDriver, AScopeLeavesTheCallersContextAsItWas) {
  std::thread([] {
    CUcontext none = nullptr, zero = nullptr, now = nullptr;
    (*driver())->CtxGetCurrent(&none);
    EXPECT_EQ(none, nullptr);
    {
      const auto scope = DeviceScope::enter(0);
      ASSERT_TRUE(scope.ok());
      scope->api().CtxGetCurrent(&zero);
      EXPECT_NE(zero, nullptr);
      {
        const auto inner = DeviceScope::enter(1);
        inner->api().CtxGetCurrent(&now);
        EXPECT_NE(now, zero);
      }
      scope->api().CtxGetCurrent(&now);
      EXPECT_EQ(now, zero);
    }
    (*driver())->CtxGetCurrent(&now);
    EXPECT_EQ(now, nullptr);
  }).join();
}

TEST(FakeDriver, OutOfMemorySaysWhatIsNeededAndFree) {
  auto first = DeviceMemory::allocate(0, 512 << 10, "x");
  ASSERT_TRUE(first.ok());
  const auto second = DeviceMemory::allocate(0, 768 << 10, "the workspace of cuda.fake");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(second.error().message,
            "cuda:0: 0.8 MiB needed for the workspace of cuda.fake, 0.5 MiB of 1.0 MiB are free");
  EXPECT_TRUE(DeviceMemory::allocate(1, 768 << 10, "the other device").ok());
  first = DeviceMemory();
  EXPECT_TRUE(DeviceMemory::allocate(0, 768 << 10, "again").ok());
  EXPECT_EQ(memory_info(0)->free_bytes, 1 << 20) << "everything was given back";
}

TEST(FakeDriver, ThePoolKeepsMemoryUntilItIsShort) {
  const auto pool = workspace_pool(1);
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(*workspace_pool(1), *pool);
  {
    const auto memory = (*pool)->allocate(600 << 10, nullptr, "a workspace");
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(*(*pool)->used_bytes(), 600 << 10);
    const auto more = (*pool)->allocate(600 << 10, nullptr, "another");
    ASSERT_FALSE(more.ok());
    EXPECT_TRUE(has(more.error().message, "0.6 MiB needed for another, 0.4 MiB of 1.0 MiB are free"))
        << more.error().message;
  }
  EXPECT_EQ(*(*pool)->used_bytes(), 0);
  EXPECT_EQ(*(*pool)->reserved_bytes(), 600 << 10);
  EXPECT_TRUE((*pool)->allocate(700 << 10, nullptr, "larger").ok()) << "the pool was not trimmed";
  EXPECT_TRUE((*pool)->trim().ok());
  EXPECT_EQ(*(*pool)->reserved_bytes(), 0);
  const auto none = (*pool)->allocate(0, nullptr, "nothing");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->data(), nullptr);
}

TEST(FakeDriver, PointersAreCheckedForTheirField) {
  const auto here = DeviceMemory::allocate(0, 4096, "here");
  const auto there = DeviceMemory::allocate(1, 4096, "there");
  ASSERT_TRUE(here.ok() && there.ok());
  const auto at = [](const DeviceMemory& memory, std::ptrdiff_t offset) {
    return static_cast<const std::byte*>(memory.data()) + offset;
  };
  EXPECT_TRUE(check_pointer(here->data(), 0, 256, "x").ok());
  EXPECT_TRUE(check_pointer(at(*here, 32), 0, 16, "x").ok());
  const auto message = [](const void* pointer, int ordinal, std::size_t alignment) {
    const auto checked = check_pointer(pointer, ordinal, alignment, "bias");
    EXPECT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, ErrorCode::invalid_argument);
    return checked.error().message;
  };
  EXPECT_EQ(message(nullptr, 0, 16), "bias: the pointer is null");
  EXPECT_TRUE(has(message(at(*here, 8), 0, 16), ": not a multiple of 16 bytes"));
  EXPECT_TRUE(has(message(there->data(), 0, 16), "memory of cuda:1, and the problem runs on cuda:0"));
  alignas(16) const float on_the_host[4] = {};
  EXPECT_TRUE(has(message(on_the_host, 0, 16), "host memory, not memory of cuda:0"));
}

TEST(FakeDriver, CopiesAndFillsArrive) {
  ASSERT_TRUE(make_current(0).ok());
  const auto memory = DeviceMemory::allocate(0, 64, "a copy");
  auto stream = Stream::create(0);
  ASSERT_TRUE(memory.ok() && stream.ok());
  const std::vector<char> sent(64, 'c');
  std::vector<char> received(64);
  EXPECT_TRUE(copy_to_device(memory->data(), sent.data(), 64, stream->get()).ok());
  EXPECT_TRUE(fill_bytes(memory->data(), 'f', 8, stream->get()).ok());
  EXPECT_TRUE(copy_to_host(received.data(), memory->data(), 64, stream->get()).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(std::string(received.data(), 10), "ffffffffcc");
  EXPECT_TRUE(copy_to_device(nullptr, nullptr, 0, stream->get()).ok());
  const auto words = fill_words(memory->data(), 0x7fffffff, 2, stream->get());  // the fake has no such function
  ASSERT_FALSE(words.ok());
  EXPECT_EQ(words.error().message, "cuMemsetD32Async for 2 words: CUDA_ERROR_OTHER (words of the driver)");
  EXPECT_EQ(words.error().code, ErrorCode::unsupported);
}

TEST(FakeDriver, ATensorMapThatIsRefusedIsNamed) {
  const TensorMapSource source{.data = nullptr, .sizes = {12, 7}, .strides = {48}};
  const auto map = tiled_map(source, {8, 4});
  ASSERT_FALSE(map.ok());  // the fake has no such function
  EXPECT_TRUE(has(map.error().message, "cuTensorMapEncodeTiled for a tensor of 12x7, strides of 48 bytes, at 0x0"))
      << map.error().message;
  EXPECT_TRUE(has(map.error().message, "in boxes of 8x4: CUDA_ERROR_OTHER")) << map.error().message;
}

// The last: nothing works after it.
TEST(FakeDriverLost, IsSaidAndTheProcessLivesOn) {
  ASSERT_TRUE(make_current(0).ok());
  auto stream = Stream::create(0);
  ASSERT_TRUE(stream.ok());
  const Kernel kernel{nullptr, "depthwise_3x3"};
  const auto refused = launch(kernel, {.grid = {.x = 7, .y = 2}, .block = {.x = 2048}}, {}, stream->get());
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(has(refused.error().message, "cuLaunchKernelEx for kernel depthwise_3x3, grid 7x2x1, block 2048x1x1"))
      << refused.error().message;
  EXPECT_TRUE(launch(kernel, {.block = {.x = 32}}, {}, stream->get()).ok()) << "launches don't wait";
  for (const Result<void>& after : {stream->synchronize(), synchronize(0)}) {
    ASSERT_FALSE(after.ok());
    EXPECT_EQ(after.error().code, ErrorCode::device_failed);
    EXPECT_TRUE(has(after.error().message, "CUDA_ERROR_ILLEGAL_ADDRESS")) << after.error().message;
    EXPECT_TRUE(has(after.error().message, "The device is lost for this process")) << after.error().message;
  }
  const auto memory = DeviceMemory::allocate(0, 64, "more");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::device_failed);
}

TEST(FakeDriver, OneAtATimeHasADevicesTurn) {
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const MeasuringLock lock(0);
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  const MeasuringLock here(0), there(1);  // each device has its own
}

}  // namespace
}  // namespace convoy::cuda
