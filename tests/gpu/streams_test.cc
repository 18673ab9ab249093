// Many host threads on one GPU, each on two streams, through one plan cache: every output has the bits of a run alone.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "convoy/plan_cache.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "engines/table.h"
#include "select/measure/problem_data.h"

namespace convoy {
namespace {

constexpr int kThreads = 16;
constexpr int kRounds = 20;

struct Task {
  ConvProblem problem;
  cuda::DeviceMemory x, w;
  std::vector<std::byte> expected;

  ConvArgs args(void* y) const { return {.x = x.data(), .w = w.data(), .out = y}; }
  std::size_t bytes() const { return static_cast<std::size_t>(problem.y.bytes()); }
};

cuda::DeviceMemory uploaded(const TensorDesc& desc, std::uint64_t seed) {
  const auto host = HostTensor::allocate(desc);
  selection::fill_random(desc, host->data.get(), seed);
  auto memory = cuda::DeviceMemory::allocate(0, static_cast<std::size_t>(desc.bytes()), "a test");
  EXPECT_TRUE(memory.ok());
  EXPECT_TRUE(cuda::copy_to_device(memory->data(), host->data.get(), memory->bytes(), nullptr).ok());
  EXPECT_TRUE(cuda::synchronize(nullptr, "a test").ok());
  return std::move(*memory);
}

// NaN, the convolution, and its output on the host; all in the stream's order.
std::string run(PlanCache& cache, const PlanSettings& settings, const Task& task, const cuda::DeviceMemory& y,
                CUstream stream, std::vector<std::byte>& out) {
  if (auto done = cuda::fill_bytes(y.data(), 0xff, task.bytes(), stream); !done.ok()) return done.error().message;
  if (auto done = cache.run(task.problem, settings, task.args(y.data()), {}, {}, stream); !done.ok()) {
    return done.error().message;
  }
  if (auto done = cuda::copy_to_host(out.data(), y.data(), task.bytes(), stream); !done.ok()) {
    return done.error().message;
  }
  const auto done = cuda::synchronize(stream, "a test");
  return done.ok() ? "" : done.error().message;
}

TEST(Gpu, SixteenThreadsOnTwoStreamsEachGetTheBitsOfARunAlone) {
  const auto device = cuda::describe(0);
  if (!device.ok()) GTEST_SKIP() << "skipped: " << device.error().message;
  PlanRequest request{1, cpu_features()};
  request.cuda = *device;
  SelectionOptions options;
  options.filter.deterministic_only = true;
  const PlanSettings settings(engines_on(DeviceKind::cuda), options, request);
  PlanCache cache;
  std::vector<Task> tasks;
  std::size_t most = 0;
  for (const char* text : {"fprop:x=f16,8x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:pad=1x1",
                           "fprop:x=f32,4x32x28x28,nchw:w=f32,48x32x3x3,nchw:pad=1x1",
                           "fprop:x=bf16,8x96x28x28,nhwc:w=bf16,96x1x7x7,nhwc:pad=3x3:groups=96"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    ASSERT_TRUE(cuda::make_current(0).ok());
    Task& task = tasks.emplace_back(Task{*problem, uploaded(problem->x, 1), uploaded(problem->w, 2), {}});
    const auto y = cuda::DeviceMemory::allocate(0, task.bytes(), "a test");
    task.expected.resize(task.bytes());
    ASSERT_EQ(run(cache, settings, task, *y, nullptr, task.expected), "") << text;
    most = std::max(most, task.bytes());
  }

  std::array<std::string, kThreads> failures;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::string& failure = failures[static_cast<std::size_t>(t)];
      if (const auto current = cuda::make_current(0); !current.ok()) {
        failure = current.error().message;
        return;
      }
      std::array streams = {cuda::Stream::create(0), cuda::Stream::create(0)};
      std::array outputs = {cuda::DeviceMemory::allocate(0, most, "a test"),
                            cuda::DeviceMemory::allocate(0, most, "a test")};
      std::vector<std::byte> out(most);
      for (int round = 0; round < kRounds && failure.empty(); ++round) {
        const Task& task = tasks[static_cast<std::size_t>(t + round) % tasks.size()];
        const auto i = static_cast<std::size_t>(round % 2);
        failure = run(cache, settings, task, *outputs[i], streams[i]->get(), out);
        if (failure.empty() && std::memcmp(out.data(), task.expected.data(), task.bytes()) != 0) {
          failure = print(task.problem) + ": other bits in round " + std::to_string(round);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  EXPECT_EQ(cache.statistics().builds, tasks.size());
}

}  // namespace
}  // namespace convoy
