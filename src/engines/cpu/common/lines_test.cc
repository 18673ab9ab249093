// How x is cut into blocks: no more groups than a block has room for, every pixel once.
#include "engines/cpu/common/lines.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

constexpr TileShape kAmx{.rows = 32, .columns = 32, .group_rows = 16, .steps_together = 16};
constexpr TileShape kVectors{.rows = 12, .columns = 32, .group_rows = 12, .steps_together = 1};

// 3x3 over maps of 32 channels of every width, by few panels and by many.
TEST(Lines, BlocksHaveRoomForTheirGroups) {
  for (const TileShape& tile : {kAmx, kVectors}) {
    for (std::int64_t width = 1; width <= 70; ++width) {
      for (const std::int64_t panels : {1, 64}) {
        SCOPED_TRACE(testing::Message() << tile.rows << " rows, width " << width << ", " << panels << " panels");
        const std::int64_t channels = 32, height = 512 / width + 3;
        ConvProblem problem;
        problem.x = TensorDesc::packed(DataType::bf16, {1, channels, height, width}, Layout::nhwc);
        problem.w = TensorDesc::packed(DataType::bf16, {panels * tile.columns, channels, 3, 3});
        problem.pre_padding = problem.post_padding = {1, 1};
        problem.stride = problem.dilation = {1, 1};
        problem.y = TensorDesc::packed(DataType::bf16, {1, panels * tile.columns, height, width}, Layout::nhwc);
        const ConvGeometry g = flat_geometry(problem);
        Lines<std::uint16_t> lines(g, tile, panels, 0);
        lines.list_steps();
        const BlockLoop loop(g, tile, lines, panels, 1);
        const std::vector<std::uint16_t> x(static_cast<std::size_t>(problem.x.elements()));
        std::vector<std::uint16_t> memory(lines.block_bytes() / sizeof(std::uint16_t));
        Block block;
        std::int64_t seen = 0;
        loop.each(
            0, loop.items(),
            [&](std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end) {
              lines.gather(x.data(), 0, group, first, count, memory.data(), block);
              ASSERT_LE(block.groups * tile.group_rows, Block::kMostTiles * tile.rows);
              std::int64_t pixels = 0;
              for (int i = 0; i < block.groups; ++i) pixels += block.pixels[static_cast<std::size_t>(i)];
              EXPECT_EQ(pixels, count);
              seen += count * (end - begin);
            });
        EXPECT_EQ(seen, height * width * panels);
      }
    }
  }
}

}  // namespace
}  // namespace convoy::cpu
