#include "network/assign/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace convoy::network {
namespace {

TEST(MemoryPlan, LiveBuffersNeverOverlap) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> buffers(1 + random() % 60);
    const int steps = 1 + static_cast<int>(random() % 40);
    std::int64_t total = 0;
    std::vector<std::int64_t> live(static_cast<std::size_t>(steps), 0);
    for (Lifetime& b : buffers) {
      b.bytes = static_cast<std::int64_t>(random() % 5000);
      b.first = static_cast<int>(random() % static_cast<unsigned>(steps));
      b.last = b.first + static_cast<int>(random() % static_cast<unsigned>(steps - b.first));
      total += (b.bytes + 63) / 64 * 64;
      for (int s = b.first; s <= b.last; ++s) live[static_cast<std::size_t>(s)] += b.bytes;
    }
    const MemoryPlan plan = plan_memory(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.arena_bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(!together || apart || buffers[i].bytes == 0 || buffers[j].bytes == 0) << "round " << round;
      }
    }
    EXPECT_LE(plan.arena_bytes, total);
    EXPECT_GE(plan.arena_bytes, *std::max_element(live.begin(), live.end()));
  }
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1 << 20, i, i + 1});
  EXPECT_EQ(plan_memory(chain).arena_bytes, 2 << 20);
}

TEST(MemoryPlan, ClosesGapsThatGoingBySizeLeaves) {
  const std::vector<Lifetime> buffers = {{192, 0, 1}, {192, 1, 2}, {64, 2, 3}, {256, 3, 3}};
  EXPECT_EQ(most_alive(buffers), 384);
  EXPECT_EQ(plan_memory(buffers).arena_bytes, 384);  // by size: 448
}

}  // namespace
}  // namespace convoy::network
