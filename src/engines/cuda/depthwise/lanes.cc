#include "engines/cuda/depthwise/lanes.h"

#include <algorithm>
#include <numeric>

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostProducts = 3000;  // of an unrolled patch: more only makes compiling slow
constexpr std::int64_t kMostRegisters = 168;  // wanted of a thread; beyond, too few threads hide latency
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

// Products that meet an output: a strided dgrad's are a part of the taps.
std::int64_t phases(const DepthwiseShape& shape) {
  return shape.transposed ? shape.axes[1].stride * shape.axes[2].stride : 1;
}

}  // namespace

bool planar(const DepthwiseShape& shape) { return shape.in_order && !shape.volumetric() && shape.alignment % 16 == 0; }

std::vector<LaneTile> lane_tiles(const DepthwiseShape& shape) {
  const std::int64_t step_h = shape.transposed ? shape.axes[1].stride : 1;
  const std::int64_t step_w = shape.transposed ? shape.axes[2].stride : 1;
  std::vector<LaneTile> tiles;
  for (const std::int64_t rows : {1, 2, 4, 7, 8, 14}) {
    if (rows > 1 && rows / 2 >= std::max<std::int64_t>(shape.axes[1].out, step_h)) continue;
    for (const std::int64_t columns : {1, 2, 4, 7, 8, 14}) {
      if (columns > 1 && columns / 2 >= std::max<std::int64_t>(shape.axes[2].out, step_w)) continue;
      tiles.push_back({rows, columns});
    }
  }
  return tiles;
}

bool runs_well(const DepthwiseShape& shape, const LaneTile& tile, std::int64_t vector, std::int64_t registers) {
  if (shape.transposed && (tile.rows % shape.axes[1].stride != 0 || tile.columns % shape.axes[2].stride != 0)) {
    return false;
  }
  const Tiling t = tiling_of(shape, tile.rows, tile.columns);
  const std::int64_t taps = plane_taps(shape);
  const double products = static_cast<double>(tile.rows * tile.columns * vector) * static_cast<double>(taps) /
                          static_cast<double>(phases(shape));
  if (products > kMostProducts || t.h.span() > 64 || t.w.span() > 160 || registers > kMostRegisters) return false;
  // Sums of several large filters leave room for neither pixels nor threads.
  return !wgrad(shape) || taps * vector <= (vector > 1 ? 64 : 128);
}

std::int64_t blocks_by_registers(std::int64_t registers, std::int64_t threads) {
  registers = round_up(std::clamp<std::int64_t>(registers, 32, 255), 8);
  return std::clamp<std::int64_t>(kRegistersPerSm / (registers * threads), 1, 2048 / threads);
}

ChannelBlocks blocks_along_channels(const DepthwiseShape& shape, const CudaDevice& device, std::int64_t threads,
                                    std::int64_t registers, std::int64_t vector, std::int64_t tiles) {
  ChannelBlocks blocks;
  const std::int64_t lanes = ceil_div(shape.out_channels, vector);
  blocks.channel_threads = best_channel_threads(lanes);
  const std::int64_t weights = vector * ((shape.taps() * shape.fan_in) | 1) * 4;
  while (blocks.channel_threads > 8 && blocks.channel_threads * weights > kMostSharedWeights) {
    blocks.channel_threads /= 2;
    if (lanes % blocks.channel_threads != 0) blocks.channel_threads = 8;
  }
  const std::int64_t least = 32 / std::gcd(blocks.channel_threads, std::int64_t{32}) * blocks.channel_threads;
  blocks.threads = least * std::max<std::int64_t>(1, threads / least);
  blocks.blocks_per_sm = blocks_by_registers(registers, blocks.threads);
  const std::int64_t pixel_threads = blocks.threads / blocks.channel_threads;
  const std::int64_t slices = ceil_div(lanes, blocks.channel_threads);
  const std::int64_t units = shape.batch * tiles;
  if (wgrad(shape)) {
    const std::int64_t columns = slices * shape.axes[0].taps;
    const std::int64_t most = std::max<std::int64_t>(1, units / pixel_threads);
    blocks.splits = std::clamp<std::int64_t>(sms_of(device) * blocks.blocks_per_sm / columns, 1, most);
    blocks.balance = balance_of(units, blocks.splits * pixel_threads);
    blocks.grid = columns * blocks.splits;
  } else {
    blocks.grid = slices * ceil_div(units, pixel_threads);
  }
  return blocks;
}

LaneWork lane_work(const DepthwiseShape& shape, const LaneTile& tile) {
  const Tiling t = tiling_of(shape, tile.rows, tile.columns);
  const auto depth = static_cast<double>(shape.axes[0].taps * shape.fan_in);
  LaneWork lane;
  lane.outputs = static_cast<double>(tile.rows * tile.columns);
  lane.products = lane.outputs * static_cast<double>(plane_taps(shape)) * depth / static_cast<double>(phases(shape));
  lane.inputs = static_cast<double>(t.h.span() * t.w.span()) * depth;
  lane.tiles = static_cast<double>(t.h.tiles() * t.w.tiles() * shape.axes[0].out);
  return lane;
}

Work work_of(const DepthwiseShape& shape, const LaneWork& lane, std::int64_t vector) {
  const auto channels = static_cast<double>(vector);
  const bool half = shape.element_bytes() == 2;
  Work work;
  work.products = lane.products;
  work.loads = lane.inputs / channels;
  work.converts = half ? lane.inputs : lane.inputs * 0.1;
  work.stores = lane.outputs / channels + (half ? lane.outputs * 0.2 : 0);
  work.tiles = 1 / channels;
  work.weights = wgrad(shape) ? 0 : static_cast<double>(shape.taps() * shape.fan_in);
  work.threads_tiles = lane.tiles * static_cast<double>(shape.batch * shape.out_channels);
  return work;
}

}  // namespace convoy::cuda
