#include <algorithm>

#include "engines/cuda/depthwise/pixel_bands.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 227 * 1024;   // of a processor
constexpr std::int64_t kBytesInFlight = 60 * 1024;  // wanted, of a processor
constexpr std::int64_t kMostStages = 8;

bool trivial(const DepthwiseAxis& axis) { return axis.in == 1 && axis.out == 1 && axis.taps == 1 && axis.pad == 0; }

std::int64_t odd_pitch(std::int64_t chunks) { return (chunks | 1) * 16; }

}  // namespace

DepthwiseShape bands_shape(const DepthwiseShape& from) {
  DepthwiseShape shape = from;
  auto& [depth, h, w] = shape.axes;
  if (trivial(w) && !trivial(h)) {
    std::swap(h, w);
    for (auto* strides : {&shape.in_strides, &shape.out_strides, &shape.w_strides}) {
      std::swap((*strides)[3], (*strides)[4]);
    }
  }
  if (trivial(h) && shape.batch > 1) {
    h.in = h.out = shape.batch;
    h.stride = 1;
    shape.in_strides[3] = shape.in_strides[0];
    shape.out_strides[3] = shape.out_strides[0];
    shape.batch = 1;
  }
  return shape;
}

Bands bands_of(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  const DepthwiseAxis& h = shape.axes[1];
  const DepthwiseAxis& w = shape.axes[2];
  const bool transposed = shape.transposed;
  Bands b;
  b.rows_in = transposed ? 1 : h.stride;
  b.rows_out = transposed ? h.stride : 1;
  const std::int64_t reach_h = (h.taps - 1) * h.dilation;
  b.ahead = reach_h / h.stride;
  b.open = transposed ? std::max(reach_h + 1, h.stride) : b.ahead + 1;
  b.units = ceil_div(h.out + (transposed ? h.pad % h.stride : 0), b.rows_out);
  b.band_units = std::min(b.units, ceil_div(design.rows, b.rows_out));
  b.bands = ceil_div(b.units, b.band_units);
  b.blocks_n = transposed ? w.stride : 1;
  b.step_chunks = transposed ? 1 : w.stride;
  const std::int64_t reach_w = (w.taps - 1) * w.dilation;
  b.window = transposed ? reach_w / w.stride + 8 : 7 * w.stride + reach_w + 1;
  b.window_chunks = ceil_div(b.window, 8);
  const std::int64_t columns = ceil_div(w.out + (transposed ? w.pad % w.stride : 0), 8 * b.blocks_n);
  // Only sums that nothing carries from row to row can be more than one product's.
  const std::int64_t most = b.ahead == 0 ? (b.window_chunks > 12 ? 32 : 64) : 16;
  b.tiles_w = ceil_div(columns, most);
  b.blocks_w = ceil_div(columns, b.tiles_w);
  b.tiles_w = ceil_div(columns, b.blocks_w);
  b.row_chunks = (b.blocks_w - 1) * b.step_chunks + b.window_chunks;
  const std::int64_t all = shape.batch * b.bands * b.tiles_w;
  b.instances = std::clamp<std::int64_t>(std::max<std::int64_t>(16, b.blocks_w) / b.blocks_w, 1, all);
  b.groups = ceil_div(b.instances * b.blocks_w, 16);
  b.places = ceil_div(all, b.instances);
  return b;
}

void place_pixel_bands(const DepthwiseShape& from, const DepthwiseDesign& design, const CudaDevice& device,
                       std::int64_t sms, DepthwiseBlocks& blocks) {
  const DepthwiseShape shape = bands_shape(from);
  const DepthwiseAxis& h = shape.axes[1];
  const std::int64_t slice = design.vector;
  const std::int64_t pieces = slice / 8;
  blocks.threads = 32 * slice / bands_channels(design);
  const std::int64_t registers = round_up(std::clamp<std::int64_t>(bands_registers(shape, design), 40, 255), 8);
  blocks.blocks_per_sm =
      std::max<std::int64_t>(1, std::min(kRegistersPerSm / (registers * blocks.threads), 2048 / blocks.threads));
  const Bands b = bands_of(shape, design);
  blocks.block_h = bands_unroll(design);
  blocks.block_w = b.blocks_w;
  blocks.tile_h = b.band_units;
  blocks.images = b.instances;
  const std::int64_t whole = std::max<std::int64_t>(1, 4 / pieces);
  const std::int64_t step_chunks = round_up(blocks.block_h * b.rows_in * b.instances * b.row_chunks, whole);
  const std::int64_t dy_chunks = wgrad(shape) ? round_up(blocks.block_h * b.instances * b.blocks_w, whole) : 0;
  const std::int64_t raw = (step_chunks + dy_chunks) * 8 * slice * 2;
  const auto shared_bytes = [&] {
    const std::int64_t planes = slice * odd_pitch(step_chunks + 1);
    if (wgrad(shape)) {
      const std::int64_t sums = blocks.threads / 32 * ceil_div(b.window_chunks, 2) * 16 * 9 * 4;
      return std::max(blocks.stages * raw + 2 * (planes + slice * odd_pitch(dy_chunks + 1)), sums);
    }
    const std::int64_t chunks = blocks.block_h * b.rows_out * b.blocks_n * 16 * b.groups;
    const std::int64_t spread = pieces >= 4 ? 1 : 4 / pieces;
    const std::int64_t out = slice * (ceil_div(chunks - spread, 8) * 8 + spread) * 16 + pieces * (pieces == 1   ? 0
                                                                                                  : pieces == 2 ? 64
                                                                                                                : 32);
    const std::int64_t reach = shape.transposed ? (8 * b.window_chunks - 1) * b.blocks_n + 8 * b.blocks_n
                                                : 8 * b.window_chunks + 7 * shape.axes[2].stride;
    return blocks.stages * raw + 2 * planes + round_up(2 * out, 16) + round_up(slice * h.taps * reach * 2, 16);
  };
  // Enough of what comes next in flight to hide the memory's latency.
  const std::int64_t shared_sm = std::min<std::int64_t>(kSharedBytes, device.shared_bytes_per_sm);
  const auto blocks_by_shared = [&] { return shared_sm / (shared_bytes() + 1024); };
  blocks.stages = 2;
  blocks.blocks_per_sm = std::clamp<std::int64_t>(blocks_by_shared(), 1, blocks.blocks_per_sm);
  while (blocks.stages < kMostStages && blocks.stages * raw * blocks.blocks_per_sm < kBytesInFlight) {
    ++blocks.stages;
    if (blocks_by_shared() < blocks.blocks_per_sm || shared_bytes() > device.shared_bytes_per_block) {
      --blocks.stages;
      break;
    }
  }
  blocks.shared_bytes = shared_bytes();
  const std::int64_t slices = ceil_div(shape.out_channels, slice);
  // Few places are left to the device to spread, so that a processor which is early takes another.
  const std::int64_t slots = sms * blocks.blocks_per_sm;
  blocks.splits = b.places;
  if (wgrad(shape) || b.places * slices > 4 * slots) {
    blocks.splits = std::clamp<std::int64_t>(slots / slices, 1, b.places);
    blocks.splits = ceil_div(b.places, ceil_div(b.places, blocks.splits));
  }
  blocks.balance = balance_of(b.places * slices, std::min(b.places * slices, slots));
  blocks.grid = slices * blocks.splits;
}

// Sums, weights or rows of dy, and what the copies of a thread need, as the compiler's reports show.
std::int64_t bands_registers(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  const Bands b = bands_of(shape, design);
  const std::int64_t channels = bands_channels(design), unroll = bands_unroll(design);
  const std::int64_t threads = 32 * design.vector / channels, pieces = design.vector / 8;
  const auto more_items = [&](std::int64_t items, std::int64_t first, std::int64_t next) {
    const std::int64_t more = ceil_div(items, threads) - 1;
    return more > 0 ? first + (more - 1) * next : 0;
  };
  const std::int64_t in_items = b.instances * std::min(b.row_chunks * 8, shape.axes[2].in) * pieces;
  std::int64_t registers =
      40 + more_items(in_items, 12, 4) + 4 * (unroll * b.rows_in - 1) * ceil_div(in_items, threads);
  if (wgrad(shape)) {
    registers += more_items(b.instances * std::min(b.blocks_w * 8, shape.axes[2].out) * pieces, 12, 4);
    return registers + channels * (4 * shape.axes[1].taps * ceil_div(b.window_chunks, 2) + 2 * b.open);
  }
  registers += more_items(b.groups * 16 * 8 * pieces, 6, 4);
  return registers + channels * b.blocks_n * (4 * b.open + shape.axes[1].taps * b.window_chunks);
}

}  // namespace convoy::cuda
