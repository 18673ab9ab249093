#include "engines/cpu/common/panels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
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

template <class Real>
void expect_packed(const std::vector<std::int64_t>& offsets, std::int64_t step, std::int64_t channels,
                   std::int64_t width) {
  SCOPED_TRACE(testing::Message() << offsets.size() << " elements, step " << step << ", " << channels << " channels of "
                                  << width);
  std::vector<Real> weights(2000);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<Real>(i + 1);
  std::vector<Real> rows(offsets.size() * width + 1, -1);
  const std::vector<PackedElement> elements = by_offset(offsets);
  EXPECT_TRUE(std::is_sorted(elements.begin(), elements.end(),
                             [](const PackedElement& a, const PackedElement& b) { return a.offset < b.offset; }));
  pack_elements<Real>(elements, weights.data(), step, channels, width, rows.data());
  std::vector<Real> expected;
  for (const std::int64_t offset : offsets) {
    for (std::int64_t k = 0; k < width; ++k) {
      expected.push_back(k < channels && offset >= 0 ? weights[offset + k * step] : Real{0});
    }
  }
  expected.push_back(-1);  // nothing is written beyond
  EXPECT_EQ(rows, expected);
}

TEST(Panels, PackedElementsAreTheWeightsOfTheirChannels) {
  const std::vector<std::vector<std::int64_t>> orders = {
      {},
      {5},
      {0, 1, 2, 3, 4, 5, 6, 7, 8},           // side by side, and one more
      {8, 7, 6, 5, 4, 3, 2, 1, 0},           // turned around
      {0, 3, 6, 1, 4, 7, 2, 5, 8},           // side by side where they are sorted
      {0, 1, 2, 4, 5, 7, 8, 9, 10, 11, 15},  // with gaps
      {-1, 0, 1, 2, 9, -1, -1},              // zeros, also before what lies side by side
  };
  for (const auto& order : orders) {
    for (const std::int64_t step : {1, 9, 40}) {
      for (const std::int64_t channels : {1, 4, 7, 16, 32}) {
        for (const std::int64_t width : {channels, channels + 9}) {
          expect_packed<float>(order, step, channels, width);
          expect_packed<double>(order, step, channels, width);
        }
      }
    }
  }
}

TEST(Panels, EveryElementOfEveryPanelIsPackedOnce) {
  struct PackedPhase {
    std::vector<int> panels;
    std::vector<PackedElement> elements;
  };
  std::vector<std::int64_t> offsets(150);
  std::iota(offsets.begin(), offsets.end(), 0);
  const std::vector<PackedPhase> phases = {
      {{0, 1, 2, 3, 4, 5}, by_offset(offsets)}, {{}, {}}, {{6}, by_offset(offsets)}};
  const auto team = make_cpu_team(2);
  for (ThreadTeam* with : {static_cast<ThreadTeam*>(nullptr), team.get()}) {
    std::vector<std::atomic<int>> packed(7 * 150);
    pack_panels(phases, with, [&](int panel, std::span<const PackedElement> elements) {
      for (const PackedElement& element : elements) ++packed[panel * 150 + element.row];
    });
    EXPECT_TRUE(std::all_of(packed.begin(), packed.end(), [](const std::atomic<int>& count) { return count == 1; }));
  }
}

}  // namespace
}  // namespace convoy::cpu
