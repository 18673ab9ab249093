#include <algorithm>
#include <set>

#include "engines/cuda/depthwise/blocks.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 227 * 1024;  // of a processor

// The columns of a tile of the tensor cores' kernels.
std::int64_t mma_columns(const DepthwiseShape& shape) { return shape.transposed ? shape.axes[2].stride : 1; }

// The shortest stride of at least `bytes` bytes with which loads of `pixels` pixels, `step` strides apart, `words`
// words of each, meet no bank of shared memory twice, or as seldom as can be.
std::int64_t conflict_free_pitch(std::int64_t bytes, std::int64_t step, std::int64_t words, std::int64_t pixels) {
  std::int64_t best = bytes;
  std::size_t most = 0;
  for (std::int64_t pitch = bytes; pitch <= bytes + 112; pitch += 16) {
    std::set<std::int64_t> banks;
    for (std::int64_t i = 0; i < pixels; ++i) banks.insert(pitch / 4 * step * i % 32 / words);
    if (banks.size() > most) {
      most = banks.size();
      best = pitch;
    }
  }
  return best;
}

// As many blocks as fit a processor. Each of its four schedulers has a quarter of the registers and whole warps.
void place_by_resources(std::int64_t registers, DepthwiseBlocks& blocks) {
  registers = round_up(std::clamp<std::int64_t>(registers, 40, 232), 8);
  const std::int64_t warps = kRegistersPerSm / 4 / (registers * 32) * 4;
  blocks.blocks_per_sm =
      std::min({warps * 32 / blocks.threads, 2048 / blocks.threads, kSharedBytes / (blocks.shared_bytes + 1024)});
  blocks.blocks_per_sm = std::max<std::int64_t>(1, blocks.blocks_per_sm);
}

}  // namespace

void place_mma(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t sms, DepthwiseBlocks& blocks) {
  const std::int64_t channel_tiles = design.vector / 8;
  const std::int64_t tile_w = mma_columns(shape);
  const std::int64_t step = shape.transposed ? shape.axes[1].stride : 1;
  const std::int64_t most_rows = std::max<std::int64_t>(step, (channel_tiles == 4 ? 4 : 8) / tile_w / step * step);
  const std::int64_t out_h = shape.axes[1].out;
  blocks.tile_h = round_up(ceil_div(out_h, ceil_div(out_h, most_rows)), step);
  const TileAxis h{shape.axes[1], blocks.tile_h, shape.transposed};
  const TileAxis w{shape.axes[2], tile_w, shape.transposed};
  blocks.block_h = std::min(h.tiles(), ceil_div(design.rows, blocks.tile_h));
  blocks.block_w = ceil_div(std::min(w.tiles(), ceil_div(design.columns, tile_w)), 8);

  // As many warps beside one another, of those that waste least.
  std::int64_t least = -1;
  for (const std::int64_t warps : {1, 2, 3, 4}) {
    const std::int64_t slice = warps * design.vector;
    if (slice > 64 || (slice < 24 && slice < shape.out_channels)) continue;
    const std::int64_t all = round_up(shape.out_channels, slice);
    if (least < 0 || all <= least) {
      least = all;
      blocks.channel_warps = warps;
    }
  }
  const std::int64_t slice = blocks.channel_warps * design.vector;
  const std::int64_t words = 4 * channel_tiles;
  blocks.pitch = conflict_free_pitch(slice * 2, w.step(), words, 32 / words);
  const std::int64_t in_rows = (blocks.block_h - 1) * h.step() + h.reach();
  const std::int64_t in_columns = (8 * blocks.block_w - 1) * w.step() + w.reach();
  const std::int64_t image_bytes = 2 * in_rows * in_columns * blocks.pitch;  // what is worked on and what comes next
  const std::int64_t units = blocks.block_h * blocks.block_w;
  if (blocks.block_h >= h.tiles() && blocks.block_w * 8 >= w.tiles()) {
    while (blocks.images * 2 <= shape.batch && blocks.images * units < 16 &&
           blocks.images * 2 * image_bytes <= (blocks.images * units == 1 ? 72 : 40) * 1024) {
      blocks.images *= 2;
    }
  }
  const std::int64_t pairs = ceil_div(blocks.images * units, 2);
  const std::int64_t pixel_warps = std::clamp<std::int64_t>(8 / blocks.channel_warps, 1, pairs);
  blocks.threads = 32 * blocks.channel_warps * ceil_div(pairs, ceil_div(pairs, pixel_warps));
  blocks.shared_bytes = blocks.images * image_bytes;
  place_by_resources(plane_taps(shape) * channel_tiles + blocks.tile_h * tile_w * channel_tiles * 4 +
                         w.span() * 2 * channel_tiles + 4 * channel_tiles + 28,
                     blocks);
  const std::int64_t places = ceil_div(h.tiles(), blocks.block_h) * ceil_div(w.tiles(), 8 * blocks.block_w) *
                              ceil_div(shape.batch, blocks.images);
  const std::int64_t slices = ceil_div(shape.out_channels, slice);
  // No share is empty, and none much smaller than the others.
  blocks.splits = std::clamp<std::int64_t>(sms * blocks.blocks_per_sm / slices, 1, places);
  blocks.splits = ceil_div(places, ceil_div(places, blocks.splits));
  blocks.balance = balance_of(places, blocks.splits);
  blocks.grid = slices * blocks.splits;
}

}  // namespace convoy::cuda
