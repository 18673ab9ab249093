#include "core/shared_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "convoy/host_tensor.h"

namespace convoy {
namespace {

constexpr std::size_t kBytes = 100'000;  // more than is hashed

std::shared_ptr<std::byte> ramp(std::size_t bytes, std::size_t differs_at = kBytes) {
  auto made = allocate_aligned(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made.get()[i] = static_cast<std::byte>(i * 31 % 251);
  if (differs_at < bytes) made.get()[differs_at] ^= std::byte{1};
  return made;
}

TEST(SharedBytes, WhatIsTheSameIsHeldOnceAndAsLongAsAnyoneHoldsIt) {
  const std::size_t before = shared_bytes_held();
  auto first = shared_bytes(ramp(kBytes), kBytes);
  auto second = shared_bytes(ramp(kBytes), kBytes);
  EXPECT_EQ(first, second);
  EXPECT_EQ(shared_bytes_held(), before + kBytes);
  first.reset();
  EXPECT_EQ(shared_bytes_held(), before + kBytes);
  EXPECT_EQ(std::memcmp(second.get(), ramp(kBytes).get(), kBytes), 0);
  second.reset();
  EXPECT_EQ(shared_bytes_held(), before);
}

TEST(SharedBytes, OneByteThatDiffersAnywhereTellsThemApart) {
  const auto same = shared_bytes(ramp(kBytes), kBytes);
  for (std::size_t at : {0UL, 8UL, 51'234UL, kBytes - 1}) {
    const auto other = shared_bytes(ramp(kBytes, at), kBytes);
    EXPECT_NE(same, other) << at;
    EXPECT_EQ(std::memcmp(other.get(), ramp(kBytes, at).get(), kBytes), 0) << at;
  }
  EXPECT_NE(same, shared_bytes(ramp(kBytes - 1), kBytes - 1));
}

TEST(SharedBytes, NothingIsNothing) { EXPECT_EQ(shared_bytes(nullptr, 0), nullptr); }

TEST(SharedBytes, ManyThreadsTakeAndLetGo) {
  const std::size_t before = shared_bytes_held();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t at = 4 * ((i + t) % 3);
        const auto mine = shared_bytes(ramp(512, at), 512);
        const auto again = shared_bytes(ramp(512, at), 512);
        EXPECT_EQ(mine, again);
        EXPECT_EQ(std::memcmp(mine.get(), ramp(512, at).get(), 512), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared_bytes_held(), before);
}

}  // namespace
}  // namespace convoy
