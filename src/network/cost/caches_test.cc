#include "network/cost/caches.h"

#include <gtest/gtest.h>

#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

CpuFeatures with_l2(std::int64_t bytes) {
  CpuFeatures cpu = cpu_features();
  cpu.l2_bytes = bytes;
  return cpu;
}

// All activations are of 16 KiB, weights of 1 KiB each.
Graph convolutions(int count) {
  GraphBuilder b;
  int value = b.input("x", {1, 16, 16, 16});
  for (int i = 0; i < count; ++i) value = b.node("Conv", {value, b.constant(spread({16, 16, 1, 1}))});
  b.output(value);
  return with_passes(b.graph, cpu_features());
}

TEST(Caches, AllWeightsCountAndTheActivationsThatAreAliveAtOnce) {
  // The input, what a convolution reads and what it writes.
  for (const int count : {3, 7}) {
    const std::int64_t bytes = 3 * 16384 + count * 1024;
    EXPECT_TRUE(stays_in_cache(convolutions(count), with_l2(bytes / 3 * 4 + 8)));
    EXPECT_FALSE(stays_in_cache(convolutions(count), with_l2(bytes / 3 * 4 - 8)));
  }
  EXPECT_FALSE(stays_in_cache(convolutions(1), with_l2(0))) << "a size that isn't known";
}

TEST(Caches, AValueThatIsReadAgainLaterStaysAlive) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 16, 16});
  const int first = b.node("Conv", {x, b.constant(spread({16, 16, 1, 1}))});
  const int pooled = b.node("MaxPool", {first}, {{"kernel_shape", std::vector<std::int64_t>{1, 1}}});
  const int second = b.node("Softmax", {pooled});
  b.output(b.node("Concat", {first, second}, {{"axis", std::int64_t{1}}}));
  const Graph graph = with_passes(b.graph, cpu_features());
  const std::int64_t bytes = 5 * 16384 + 1024;  // at the Concat, whose result is of two
  EXPECT_TRUE(stays_in_cache(graph, with_l2(bytes / 3 * 4 + 8)));
  EXPECT_FALSE(stays_in_cache(graph, with_l2(bytes / 3 * 4 - 8)));
}

TEST(Caches, WhatIsKnownOnlyInARunIsNotSmall) {
  GraphBuilder b;
  b.output(b.node("NonZero", {b.input("x", {1, 16, 16, 16})}));
  EXPECT_FALSE(stays_in_cache(with_passes(b.graph, cpu_features()), with_l2(1 << 30)));
}

TEST(Caches, OnlyColdOnesAreDecidedAndOnlyOnce) {
  const Graph graph = convolutions(3);
  SelectionOptions small, large, asked;
  decide_caches(graph, with_l2(1 << 20), small);
  EXPECT_EQ(small.caches, CacheState::warm);
  decide_caches(graph, with_l2(1 << 10), large);
  EXPECT_EQ(large.caches, CacheState::cold);
  decide_caches(graph, with_l2(1 << 20), large);
  EXPECT_EQ(large.caches, CacheState::cold) << "of a part of a large network";
  asked.caches = CacheState::all_cold;
  decide_caches(graph, with_l2(1 << 20), asked);
  EXPECT_EQ(asked.caches, CacheState::all_cold);
  EXPECT_FALSE(asked.in_network);
}

}  // namespace
}  // namespace convoy::network
