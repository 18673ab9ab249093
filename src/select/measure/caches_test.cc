#include "select/measure/caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace convoy::selection {
namespace {

TEST(OtherParts, AreAllOfItAndMostlyAnotherThreadsPart) {
  for (const int threads : {1, 2, 3, 16}) {
    for (const std::int64_t count : {0, 1, 5, 4800}) {
      std::vector<int> taken(static_cast<std::size_t>(count));
      std::int64_t own = 0;
      for (int thread = 0; thread < threads; ++thread) {
        for (const auto& [begin, end] : other_part(count, threads, thread)) {
          for (std::int64_t i = begin; i < end; ++i) {
            ++taken[static_cast<std::size_t>(i)];
            own += i >= count * thread / threads && i < count * (thread + 1) / threads ? 1 : 0;
          }
        }
      }
      EXPECT_EQ(std::ranges::count(taken, 1), count) << threads << " threads share " << count;
      if (count == 4800) {
        EXPECT_NEAR(static_cast<double>(own), static_cast<double>(count) / threads, threads) << threads;
      }
    }
  }
}

TEST(OtherParts, KeepWhatIsWritten) {
  const auto team = make_cpu_team(2);
  std::vector<std::byte> bytes(1001);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  const std::vector<std::byte> before = bytes;
  write_in_other_parts(*team, bytes);
  EXPECT_EQ(bytes, before);
}

}  // namespace
}  // namespace convoy::selection
