#include "engines/cuda/depthwise/blocks.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostSharedWeights = 24 * 1024;

std::int64_t best_channel_threads(std::int64_t lanes) {
  if (lanes <= 64) {
    // All of them, where some multiple makes whole warps of a block.
    if (lanes >= 8 && 32 / std::gcd(lanes, std::int64_t{32}) <= 8) return lanes;
    return lanes >= 32 ? 32 : lanes >= 16 ? 16 : 8;
  }
  for (const std::int64_t candidate : {32, 48, 64, 40, 24, 16}) {
    if (lanes % candidate == 0) return candidate;
  }
  return 32;
}

std::int64_t room(std::int64_t elements, int bytes) { return (elements * bytes + 15) / 16 * 16 + 16; }

// Whether what comes next is copied while something is worked on. For fprop and dgrad it pays where a plane is so small
// that its weights matter: they are kept for the same channel of the next image.
std::int64_t plane_stages(const DepthwiseShape& shape) {
  return wgrad(shape) || 16 * plane_taps(shape) >= shape.axes[1].out * shape.axes[2].out ? 2 : 1;
}

struct PlaneBytes {
  std::int64_t in, out, total;
};
PlaneBytes plane_bytes(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t planes,
                       std::int64_t strip_tiles) {
  const Tiling t = tiling_of(shape, design);
  const int size = shape.element_bytes();
  const bool whole = strip_tiles >= t.h.tiles();
  const std::int64_t in_rows =
      whole ? shape.axes[1].in : std::min(shape.axes[1].in, (strip_tiles - 1) * t.h.step() + t.h.reach());
  const std::int64_t out_rows = whole ? shape.axes[1].out : strip_tiles * design.rows;
  const std::int64_t in_planes = (planes * shape.fan_in + shape.multiplier - 1) / shape.multiplier;
  PlaneBytes bytes;  // of an image
  bytes.in = room(in_planes * in_rows * shape.axes[2].in, size);
  bytes.out = room(planes * out_rows * shape.axes[2].out, size);
  const std::int64_t stages = plane_stages(shape);
  bytes.total = stages * bytes.in + (wgrad(shape) ? stages : 1) * bytes.out;
  if (!wgrad(shape)) bytes.total += planes * plane_taps(shape) * shape.fan_in * 4;
  return bytes;
}

std::int64_t clamped_splits(std::int64_t wanted, std::int64_t units, std::int64_t units_of_a_block) {
  return std::clamp<std::int64_t>(wanted, 1,
                                  std::max<std::int64_t>(1, units / std::max<std::int64_t>(1, units_of_a_block)));
}

void place_channels(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t sms,
                    DepthwiseBlocks& blocks) {
  const Tiling t = tiling_of(shape, design);
  const bool rolling = design.kernel == DepthwiseKernel::rolling;
  const std::int64_t lanes = (shape.out_channels + design.vector - 1) / design.vector;
  blocks.channel_threads = best_channel_threads(lanes);
  const std::int64_t weights = design.vector * ((shape.taps() * shape.fan_in) | 1) * 4;
  while (blocks.channel_threads > 8 && blocks.channel_threads * weights > kMostSharedWeights) {
    blocks.channel_threads /= 2;
    if (lanes % blocks.channel_threads != 0) blocks.channel_threads = 8;
  }
  blocks.prefetch = t.h.span() > 2 && plane_taps(shape) < 16 ? 2 : 1;
  const std::int64_t wanted = std::clamp<std::int64_t>(registers_wanted(shape, design, blocks.prefetch), 32, 255);
  // A few warps a block; large blocks where threads have many registers, so that none of them lie idle.
  const std::int64_t least = 32 / std::gcd(blocks.channel_threads, std::int64_t{32}) * blocks.channel_threads;
  const std::int64_t aim = rolling ? 128 : 256;
  blocks.threads = least * std::max<std::int64_t>(1, aim / least);
  blocks.blocks_per_sm =
      std::clamp<std::int64_t>(kRegistersPerSm / ((wanted + 7) / 8 * 8 * blocks.threads), 1, 2048 / blocks.threads);
  const std::int64_t pixel_threads = blocks.threads / blocks.channel_threads;
  const std::int64_t slices = (lanes + blocks.channel_threads - 1) / blocks.channel_threads;
  const std::int64_t rows_of_tiles =
      rolling ? (shape.axes[1].out + design.rows - 1) / design.rows : t.h.tiles() * shape.axes[0].out;
  const std::int64_t units = shape.batch * rows_of_tiles * t.w.tiles();
  if (wgrad(shape)) {
    const std::int64_t columns = slices * shape.axes[0].taps;
    blocks.splits = clamped_splits(sms * blocks.blocks_per_sm / columns, units, pixel_threads);
    blocks.balance = balance_of(units, blocks.splits * pixel_threads);
    blocks.grid = columns * blocks.splits;
  } else {
    blocks.grid = slices * ((units + pixel_threads - 1) / pixel_threads);
  }
}

// Blocks that share a processor, by registers and shared memory (planes).
void place_on_processors(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         DepthwiseBlocks& blocks) {
  const std::int64_t wanted = std::clamp<std::int64_t>(registers_wanted(shape, design, 0), 32, 255);
  blocks.blocks_per_sm =
      std::clamp<std::int64_t>(kRegistersPerSm / ((wanted + 7) / 8 * 8 * blocks.threads), 1, 2048 / blocks.threads);
  blocks.blocks_per_sm = std::min(blocks.blocks_per_sm,
                                  std::max<std::int64_t>(1, device.shared_bytes_per_sm / (blocks.shared_bytes + 1024)));
}

void place_planes(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                  std::int64_t sms, DepthwiseBlocks& blocks) {
  const Tiling t = tiling_of(shape, design);
  const std::int64_t tiles_h = t.h.tiles();
  const std::int64_t tiles_plane = tiles_h * t.w.tiles();
  blocks.stages = plane_stages(shape);
  const bool kept = blocks.stages == 2;  // a thread's weights, so that it has one tile
  const std::int64_t most_bytes = std::min<std::int64_t>(device.shared_bytes_per_block, (kept ? 56 : 48) * 1024);
  const auto bytes_of = [&](std::int64_t planes) {
    return plane_bytes(shape, design, planes, blocks.strip_tiles).total;
  };
  blocks.strip_tiles = tiles_h;
  while (blocks.strip_tiles > 1 && bytes_of(1) > most_bytes) blocks.strip_tiles = (blocks.strip_tiles + 1) / 2;
  blocks.planes = 1;
  const std::int64_t most_items = kept ? 128 : 256;
  if (blocks.strip_tiles >= tiles_h) {
    std::int64_t next = shape.multiplier > 1 ? shape.multiplier : 2;
    while (next * 3 / 4 <= shape.out_channels && next * tiles_plane <= most_items && bytes_of(next) <= most_bytes) {
      blocks.planes = next;
      next *= 2;
    }
    // The last block of channels shouldn't be nearly empty.
    while (blocks.planes > std::max<std::int64_t>(8, shape.multiplier) &&
           (shape.out_channels + blocks.planes - 1) / blocks.planes * blocks.planes * 8 > shape.out_channels * 9) {
      blocks.planes /= 2;
    }
  }
  const std::int64_t strips = (tiles_h + blocks.strip_tiles - 1) / blocks.strip_tiles;
  if (wgrad(shape)) {
    // Fewer channels and more images at a time, where blocks would be few.
    const std::int64_t tensors = (shape.batch * shape.in_channels * shape.axes[1].in * shape.axes[2].in +
                                  shape.batch * shape.out_channels * shape.axes[1].out * shape.axes[2].out) *
                                 shape.element_bytes();
    const std::int64_t shares = plane_taps(shape) * shape.out_channels * 4;
    // Shares of sums are written and read again: they should stay small beside the tensors.
    const std::int64_t most_splits = std::clamp<std::int64_t>(tensors / (8 * shares), 1, shape.batch * strips);
    const auto groups = [&] { return (shape.out_channels + blocks.planes - 1) / blocks.planes; };
    while (blocks.planes > std::max<std::int64_t>(4, shape.multiplier) && groups() * most_splits < 4 * sms) {
      blocks.planes /= 2;
    }
    const std::int64_t items = blocks.strip_tiles * t.w.tiles();
    while (blocks.images * 2 * blocks.planes * items <= most_items && blocks.images * 4 <= shape.batch &&
           blocks.images * 2 * bytes_of(blocks.planes) <= most_bytes) {
      blocks.images *= 2;
    }
    // A power of two of threads for each channel.
    blocks.threads = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(items * blocks.images))) * blocks.planes, 64,
        128);
    while (blocks.planes > blocks.threads || blocks.threads % blocks.planes != 0) blocks.planes /= 2;
    if (shape.multiplier > 1 && blocks.planes % shape.multiplier != 0) blocks.planes = 1;
    const std::int64_t sums = std::max(blocks.planes, blocks.threads / 32) * plane_taps(shape) * 4;
    blocks.shared_bytes = std::max(blocks.images * bytes_of(blocks.planes), sums);
    place_on_processors(shape, design, device, blocks);
    const std::int64_t units = (shape.batch + blocks.images - 1) / blocks.images * strips;
    blocks.splits = std::min({most_splits, units, std::max<std::int64_t>(1, sms * blocks.blocks_per_sm / groups())});
    blocks.splits = ceil_div(units, ceil_div(units, blocks.splits));
    blocks.balance = balance_of(units, blocks.splits);
    blocks.grid = groups() * blocks.splits;
    return;
  }
  const std::int64_t items = blocks.planes * blocks.strip_tiles * t.w.tiles();
  blocks.threads = kept ? std::clamp<std::int64_t>(round_up(items, 32), 64, 256) : items > 64 ? 128 : 64;
  blocks.shared_bytes = bytes_of(blocks.planes);
  place_on_processors(shape, design, device, blocks);
  const std::int64_t groups = (shape.out_channels + blocks.planes - 1) / blocks.planes * strips;
  blocks.splits = shape.batch;
  if (blocks.stages == 2) blocks.splits = std::clamp<std::int64_t>(sms * blocks.blocks_per_sm / groups, 1, shape.batch);
  blocks.splits = ceil_div(shape.batch, ceil_div(shape.batch, blocks.splits));
  blocks.balance = balance_of(shape.batch, blocks.splits);
  blocks.grid = groups * blocks.splits;
}

}  // namespace

// Registers that a thread's arrays take at once, as the compiler's reports show: of the row that is loaded and the row
// that is used a part is always dead.
std::int64_t registers_wanted(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t prefetch) {
  const Tiling t = tiling_of(shape, design);
  const std::int64_t taps = plane_taps(shape);
  const std::int64_t row = t.w.span() * design.vector;
  const std::int64_t raw = std::max<std::int64_t>(1, design.vector * shape.element_bytes() / 4) * t.w.span();
  if (design.kernel == DepthwiseKernel::rolling) {
    const std::int64_t open = shape.axes[1].taps * design.columns;
    return open + taps + row / 2 + (wgrad(shape) ? raw + 2 * design.columns : 2 * raw) + taps / 8 +
           (design.columns == 1 ? 36 : 24);
  }
  const std::int64_t patch = design.rows * design.columns * design.vector;
  const std::int64_t filter = taps * design.vector;
  if (design.kernel == DepthwiseKernel::planes) return patch + filter + row + 16;
  const std::int64_t rows = row + prefetch * raw;
  const std::int64_t others = 8 + (taps < 16 ? 0 : wgrad(shape) ? 8 * design.vector : shape.transposed ? 8 : 0);
  return patch + filter + (design.vector == 1 ? (3 * rows + 3) / 4 : rows) + others;
}

std::int64_t least_plane_bytes(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  return plane_bytes(shape, design, 1, 1).total;
}

DepthwiseBlocks blocks_of(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                          int target_sms) {
  const std::int64_t sms = std::max(1, target_sms > 0 ? std::min(target_sms, device.sm_count) : device.sm_count);
  DepthwiseBlocks blocks;
  switch (design.kernel) {
    case DepthwiseKernel::general:
      blocks.grid = wgrad(shape) ? shape.out_channels * shape.taps()
                                 : std::clamp<std::int64_t>((shape.outputs() + 255) / 256, 1, sms * 64);
      return blocks;
    case DepthwiseKernel::patch:
    case DepthwiseKernel::rolling:
      place_channels(shape, design, sms, blocks);
      return blocks;
    case DepthwiseKernel::planes:
      place_planes(shape, design, device, sms, blocks);
      return blocks;
    case DepthwiseKernel::mma:
      place_mma(shape, design, sms, blocks);
      return blocks;
    case DepthwiseKernel::plane_bands:
      place_plane_bands(shape, design, sms, blocks);
      return blocks;
    case DepthwiseKernel::pixel_bands:
      place_pixel_bands(shape, design, device, sms, blocks);
      return blocks;
    case DepthwiseKernel::signal:
      place_signal(shape, design, device, sms, blocks);
      return blocks;
  }
  return blocks;
}

}  // namespace convoy::cuda
