#include "device/device.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "convoy/thread_team.h"
#include "device/apart.h"

namespace convoy {
namespace {

TEST(CpuTeam, RunsEveryThreadOnce) {
  for (int threads : {1, 2, 3, 7}) {
    const auto team = make_cpu_team(threads);
    ASSERT_EQ(team->size(), threads);
    std::vector<std::atomic<int>> calls(threads);
    team->run([&](int thread) { ++calls[thread]; });
    for (int i = 0; i < threads; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << threads;
  }
  EXPECT_EQ(make_cpu_team(0)->size(), 1);
  EXPECT_EQ(make_cpu_team(-3)->size(), 1);
}

cpu_set_t affinity() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

// Where each of a team's two threads runs, and whether it may run wherever `allowed` says.
std::array<int, 2> processors(ThreadTeam& team, const cpu_set_t& allowed) {
  std::array<int, 2> where = {};
  team.run([&](int thread) {
    where[static_cast<std::size_t>(thread)] = sched_getcpu();
    const cpu_set_t own = affinity();
    EXPECT_TRUE(CPU_EQUAL(&own, &allowed)) << thread;
  });
  return where;
}

TEST(CpuTeam, WhoFindsItselfOnAnEarlierThreadsProcessorGoesElsewhere) {
  const cpu_set_t allowed = affinity();
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "this process may run on one processor only";
  Apart apart(2);
  int moved = 0;
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(sched_getcpu(), &one);
      EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      const int here = sched_getcpu();
      Apart::Region region(apart);
      region.enter(0, 1);
      EXPECT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
      region.enter(1, 1);
      moved += sched_getcpu() != here;
      const cpu_set_t own = affinity();
      EXPECT_TRUE(CPU_EQUAL(&own, &allowed));
    }).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // not twice within one
  }
  EXPECT_GE(moved, kTries * 3 / 4);  // the kernel moves threads, too
}

TEST(CpuTeam, ThreadsThatMayRunOnOneProcessorOnlyStayThere) {
  const cpu_set_t allowed = affinity();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  const auto team = make_cpu_team(2);
  const auto allow = [&](const cpu_set_t& set) {
    team->run([&](int) { EXPECT_EQ(sched_setaffinity(0, sizeof set, &set), 0); });
  };
  allow(one);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto where = processors(*team, one);
    EXPECT_EQ(where[0], where[1]);
  }
  allow(allowed);
}

TEST(ParallelRanges, CoverEverythingOnceAndEvenly) {
  for (int threads : {1, 2, 3, 5}) {
    const auto team = make_cpu_team(threads);
    for (std::int64_t count : {0, 1, 2, 3, 4, 5, 17, 100}) {
      std::vector<std::atomic<int>> seen(count);
      std::vector<std::int64_t> sizes(threads, 0);
      parallel_ranges(*team, count, [&](std::int64_t begin, std::int64_t end, int thread) {
        ASSERT_LT(begin, end);
        sizes[thread] = end - begin;
        for (std::int64_t i = begin; i < end; ++i) ++seen[i];
      });
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(seen[i], 1);
      for (std::int64_t size : sizes) {
        EXPECT_GE(size, count / threads);
        EXPECT_LE(size, count / threads + 1);
      }
    }
  }
}

TEST(ParallelRanges, HugeCountsDontOverflow) {
  const auto team = make_cpu_team(3);
  std::atomic<std::int64_t> total{0};
  constexpr std::int64_t count = INT64_MAX;
  parallel_ranges(*team, count, [&](std::int64_t begin, std::int64_t end, int) { total += end - begin; });
  EXPECT_EQ(total, count);
}

TEST(Processor, HasMemoryAndQueues) {
  const Device& device = processor();
  EXPECT_EQ(device.name(), "cpu");
  const auto buffer = device.allocate(100, "a test");
  ASSERT_TRUE(buffer.ok()) << buffer.error().message;
  EXPECT_EQ(buffer->bytes(), 100u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % device.alignment(), 0u);
  EXPECT_EQ(device.allocate(0, "nothing")->data(), nullptr);
  const auto failed = device.allocate(SIZE_MAX - 4096, "the moon");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(failed.error().message.find("for the moon"), std::string::npos) << failed.error().message;

  const auto queue = device.make_queue(2);
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(ExecContext{**queue}.team().size(), 2);
  const char text[] = "from here";
  char back[sizeof text] = {};
  auto* const half = static_cast<char*>(buffer->data()) + 50;
  ASSERT_TRUE((*queue)->fill(buffer->data(), 0xff, 100).ok());
  ASSERT_TRUE((*queue)->copy_in(buffer->data(), text, sizeof text).ok());
  ASSERT_TRUE((*queue)->copy(half, buffer->data(), sizeof text).ok());
  ASSERT_TRUE((*queue)->copy_out(back, half, sizeof text).ok());
  ASSERT_TRUE((*queue)->finish().ok());
  EXPECT_STREQ(back, text);
}

TEST(Devices, AreFoundByName) {
  EXPECT_EQ(*find_device("cpu"), &processor());
  EXPECT_EQ((*find_device("cuda"))->name(), "cuda:0");
  EXPECT_EQ((*find_device("cuda:3"))->name(), "cuda:3");
  EXPECT_NE(find_device("tpu").error().message.find("'tpu' is not a device"), std::string::npos);
  PlanRequest request;
  EXPECT_EQ(&device_of(request), &processor());
  request.cuda = CudaDevice{.ordinal = 1};
  EXPECT_EQ(device_of(request).name(), "cuda:1");
  request.device = &processor();
  EXPECT_EQ(&device_of(request), &processor());
}

TEST(Scratch, GrowsAndIsKept) {
  Scratch workspace;
  EXPECT_EQ(*workspace.reserve(0), nullptr);
  void* first = *workspace.reserve(1000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(*workspace.reserve(10), first);
  EXPECT_GE(workspace.capacity(), 1000u);
  const auto failed = workspace.reserve(SIZE_MAX - 4096);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(*workspace.reserve(1 << 20), nullptr);
}

}  // namespace
}  // namespace convoy
