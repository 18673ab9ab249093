#include "engines/cpu/common/panels.h"

#include <gtest/gtest.h>

#include <tuple>

namespace convoy::cpu {
namespace {

TEST(Panels, ChunksHaveEveryPanelOnceAndFitWhatTheyMay) {
  for (const std::int64_t groups : {1, 3, 8}) {
    for (const std::int64_t of_group : {1, 2, 5, 16}) {
      for (const std::int64_t fit : {0, 1, 2, 3, 7, 40, 1000}) {
        SCOPED_TRACE(testing::Message() << groups << " groups of " << of_group << ", " << fit << " fit");
        const auto chunks = chunk_panels(groups * of_group, groups, 64, 64.0 * static_cast<double>(fit));
        std::int64_t next = 0;
        for (const PanelChunk& chunk : chunks) {
          EXPECT_EQ(chunk.panel_begin, next);
          EXPECT_GT(chunk.panel_end, chunk.panel_begin);
          EXPECT_LE(chunk.panel_end - chunk.panel_begin, std::max<std::int64_t>(fit, 1));
          EXPECT_EQ(chunk.group_begin, chunk.panel_begin / of_group);
          EXPECT_EQ(chunk.group_end, (chunk.panel_end + of_group - 1) / of_group);
          next = chunk.panel_end;
        }
        EXPECT_EQ(next, groups * of_group);
        EXPECT_EQ(most_groups(chunks), std::clamp<std::int64_t>(fit / of_group, 1, groups));
      }
    }
  }
}

TEST(Panels, BlocksAreAsEqualAsTilesAllow) {
  const auto blocks = [](std::int64_t count, std::int64_t most, std::int64_t tile, std::int64_t multiple) {
    const Blocks made = equal_blocks(count, most, tile, multiple);
    return std::pair(made.size, made.count);
  };
  EXPECT_EQ(blocks(784, 252, 14, 1), std::pair(196l, 4l));
  EXPECT_EQ(blocks(196, 196, 14, 2), std::pair(98l, 2l));
  EXPECT_EQ(blocks(28, 9, 1, 1), std::pair(7l, 4l));
  EXPECT_EQ(blocks(10, 10, 14, 4), std::pair(14l, 1l)) << "less than a tile";
  EXPECT_EQ(blocks(0, 5, 1, 2), std::pair(5l, 0l));
}

// A phase of `chunks` chunks in two groups, and `blocks` blocks.
struct Phase {
  std::vector<PanelChunk> chunks;
  std::int64_t images, row_blocks, col_blocks;
  std::int64_t items() const { return static_cast<std::int64_t>(chunks.size()) * images * row_blocks * col_blocks; }
};

TEST(Panels, ItemsRunOnceEachAndABufferIsFilledForItsGroupOnly) {
  const std::vector<PanelChunk> chunks = {{0, 1, 0, 1}, {1, 2, 0, 1}, {2, 3, 1, 2}};
  const std::vector<Phase> phases = {{chunks, 2, 3, 1}, {{}, 1, 1, 1}, {chunks, 1, 1, 1}};
  const auto team = make_cpu_team(1);
  std::vector<std::tuple<const Phase*, std::int64_t, std::int64_t>> seen;
  std::vector<bool> filled;
  run_items(phases, *team, [&](const Phase& phase, const PanelChunk& chunk, PhaseItem item, int thread) {
    EXPECT_EQ(thread, 0);
    seen.emplace_back(&phase, chunk.panel_begin, item.block);
    if (&phase == &phases[2]) filled.push_back(item.filled);
    EXPECT_FALSE(&phase == &phases[0] && item.filled);
    EXPECT_TRUE(item.block > 0 || item.first_of_chunk);
  });
  EXPECT_EQ(seen.size(), 18U + 3U);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(filled, (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace convoy::cpu
