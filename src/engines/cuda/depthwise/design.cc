#include "engines/cuda/depthwise/design.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engines/cuda/depthwise/tile_axis.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostProducts = 3000;  // of an unrolled patch: more only makes compiling slow
constexpr std::int64_t kMostRegisters = 168;  // wanted of a thread; beyond, too few threads hide latency
constexpr std::int64_t kRegistersPerSm = 65536;
constexpr std::int64_t kMostSharedWeights = 24 * 1024;
constexpr std::int64_t kMostDesigns = 12;

struct Tiling {
  TileAxis h, w;
};

Tiling tiling_of(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  return {{shape.axes[1], design.rows, shape.transposed}, {shape.axes[2], design.columns, shape.transposed}};
}

std::int64_t plane_taps(const DepthwiseShape& shape) { return shape.axes[1].taps * shape.axes[2].taps; }

bool wgrad(const DepthwiseShape& shape) { return shape.pass == Pass::wgrad; }

bool fits_rolling(const DepthwiseShape& shape) {
  return shape.axes[1].stride == 1 && shape.axes[2].stride == 1 && shape.axes[1].dilation == 1 &&
         shape.axes[2].dilation == 1 && !shape.volumetric() && shape.fan_in == 1;
}

// Registers that a thread's arrays take at once, as the compiler's reports show: of the row that is loaded and the row
// that is used a part is always dead.
std::int64_t registers_wanted(const DepthwiseShape& shape, const DepthwiseDesign& design, bool weights_in_registers,
                              std::int64_t prefetch) {
  const Tiling t = tiling_of(shape, design);
  const std::int64_t taps = plane_taps(shape);
  const std::int64_t row = t.w.span() * design.vector;
  const std::int64_t raw = std::max<std::int64_t>(1, design.vector * shape.element_bytes() / 4) * t.w.span();
  if (design.kernel == DepthwiseKernel::rolling) {
    const std::int64_t open = shape.axes[1].taps * design.columns;
    return open + taps + (3 * row + 3) / 4 + raw + (wgrad(shape) ? 2 * design.columns : 0) + 16;
  }
  const std::int64_t patch = design.rows * design.columns * design.vector;
  const std::int64_t filter = wgrad(shape) || weights_in_registers ? taps * design.vector : 0;
  if (design.kernel == DepthwiseKernel::planes) return patch + filter + row + 16;
  return patch + filter + (3 * (row + prefetch * raw) + 3) / 4 + 8;
}

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
  PlaneBytes bytes;
  bytes.in = room(in_planes * in_rows * shape.axes[2].in, size);
  bytes.out = room(planes * out_rows * shape.axes[2].out, size);
  bytes.total = bytes.in + bytes.out;
  if (!wgrad(shape)) bytes.total += planes * ((plane_taps(shape) * shape.fan_in) | 1) * 4;
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
  blocks.weights_in_registers = true;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(registers_wanted(shape, design, blocks.weights_in_registers, blocks.prefetch), 32, 255);
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
    blocks.grid = columns * blocks.splits;
  } else {
    blocks.grid = slices * ((units + pixel_threads - 1) / pixel_threads);
  }
}

void place_planes(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                  std::int64_t sms, DepthwiseBlocks& blocks) {
  const Tiling t = tiling_of(shape, design);
  const std::int64_t tiles_h = t.h.tiles();
  const std::int64_t tiles_plane = tiles_h * t.w.tiles();
  const std::int64_t most_bytes = std::min<std::int64_t>(device.shared_bytes_per_block, 48 * 1024);
  blocks.weights_in_registers = true;
  blocks.strip_tiles = tiles_h;
  while (blocks.strip_tiles > 1 && plane_bytes(shape, design, 1, blocks.strip_tiles).total > most_bytes) {
    blocks.strip_tiles = (blocks.strip_tiles + 1) / 2;
  }
  blocks.planes = 1;
  if (blocks.strip_tiles >= tiles_h) {
    blocks.strip_tiles = tiles_h;
    const std::int64_t all = wgrad(shape) ? shape.out_channels : shape.batch * shape.out_channels;
    std::int64_t next = shape.multiplier > 1 ? shape.multiplier : 2;
    while (next <= all && next * tiles_plane <= 256 && plane_bytes(shape, design, next, tiles_h).total <= most_bytes &&
           (!wgrad(shape) || next <= 128)) {
      blocks.planes = next;
      next *= 2;
    }
  }
  const std::int64_t items = blocks.planes * blocks.strip_tiles * t.w.tiles();
  blocks.threads = items > 128 ? 128 : items > 64 ? 128 : 64;
  if (wgrad(shape)) {
    // A power of two of threads for each channel, at most 128 in all.
    blocks.threads =
        std::max<std::int64_t>(64, std::min<std::int64_t>(128, std::bit_ceil(static_cast<std::uint64_t>(items))));
    while (blocks.planes > blocks.threads || blocks.threads % blocks.planes != 0) blocks.planes /= 2;
    if (shape.multiplier > 1 && blocks.planes % shape.multiplier != 0) blocks.planes = 1;
  }
  const PlaneBytes bytes = plane_bytes(shape, design, blocks.planes, blocks.strip_tiles);
  blocks.shared_bytes = bytes.total;
  if (wgrad(shape)) blocks.shared_bytes = std::max(bytes.total, blocks.threads / 32 * plane_taps(shape) * 4);
  const std::int64_t wanted =
      std::clamp<std::int64_t>(registers_wanted(shape, design, blocks.weights_in_registers, 0), 32, 255);
  blocks.blocks_per_sm =
      std::clamp<std::int64_t>(kRegistersPerSm / ((wanted + 7) / 8 * 8 * blocks.threads), 1, 2048 / blocks.threads);
  blocks.blocks_per_sm = std::min(blocks.blocks_per_sm,
                                  std::max<std::int64_t>(1, device.shared_bytes_per_sm / (blocks.shared_bytes + 1024)));
  const std::int64_t strips = (tiles_h + blocks.strip_tiles - 1) / blocks.strip_tiles;
  if (wgrad(shape)) {
    const std::int64_t groups = (shape.out_channels + blocks.planes - 1) / blocks.planes;
    blocks.splits = clamped_splits((sms * blocks.blocks_per_sm + groups - 1) / groups, shape.batch * strips, 1);
    blocks.grid = groups * blocks.splits;
  } else {
    blocks.grid = (shape.batch * shape.out_channels + blocks.planes - 1) / blocks.planes * strips;
  }
}

bool legal(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device) {
  const Tiling t = tiling_of(shape, design);
  const std::int64_t taps = plane_taps(shape);
  if (shape.transposed && (design.rows % shape.axes[1].stride != 0 || design.columns % shape.axes[2].stride != 0)) {
    return false;
  }
  if (design.kernel == DepthwiseKernel::rolling) {
    return shape.axes[1].taps * shape.axes[2].taps * design.columns <= 1200 &&
           registers_wanted(shape, design, true, 0) <= 200;
  }
  const double products = static_cast<double>(design.rows * design.columns * design.vector) *
                          static_cast<double>(taps) /
                          (shape.transposed ? static_cast<double>(shape.axes[1].stride * shape.axes[2].stride) : 1);
  if (products > kMostProducts || t.h.span() > 64 || t.w.span() > 160) return false;
  if (registers_wanted(shape, design, true, 1) > kMostRegisters) return false;
  if (wgrad(shape) && taps * design.vector > 128) return false;
  if (design.kernel == DepthwiseKernel::planes) {
    if (plane_bytes(shape, design, 1, 1).total > device.shared_bytes_per_block) return false;
    return true;
  }
  return shape.taps() * shape.fan_in * design.vector * 4 * 8 <= 44 * 1024;
}

bool vector_fits(const DepthwiseShape& shape, std::int64_t vector) {
  if (vector == 1) return true;
  if (!shape.channels_innermost() || shape.multiplier > 1 || shape.fan_in > 1) return false;
  if (shape.out_channels % vector != 0 || vector * shape.element_bytes() > 16) return false;
  if (shape.alignment % (vector * shape.element_bytes()) != 0) return false;
  for (const int dim : {0, 2, 3, 4}) {
    if (shape.in_strides[dim] % vector != 0 || shape.out_strides[dim] % vector != 0) return false;
  }
  return true;
}

// The kernels index with 32 bits inside a tensor's dims, and wgrad's second stage writes filters in their packed order.
bool fits_tuned(const DepthwiseShape& shape) {
  if (!wgrad(shape)) return true;
  return shape.filters_packed;
}

}  // namespace

std::int64_t knob_of(const DepthwiseDesign& design) {
  if (design.kernel == DepthwiseKernel::general) return 0;
  return static_cast<std::int64_t>(design.kernel) * 100'000'000 + design.rows * 10'000 + design.columns * 100 +
         design.vector;
}

DepthwiseDesign design_of(std::int64_t knob) {
  if (knob == 0) return {};
  return {static_cast<DepthwiseKernel>(knob / 100'000'000), knob / 10'000 % 10'000, knob / 100 % 100, knob % 100};
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
  }
  return blocks;
}

double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms) {
  constexpr double kClock = 1.98e9;
  constexpr double kBandwidth = 4.0e12;
  constexpr double kLaunch = 2.5e-6;
  const double sms = std::max(1, target_sms > 0 ? std::min(target_sms, device.sm_count) : device.sm_count);
  const double pixels = static_cast<double>(shape.axes[0].out * shape.axes[1].out * shape.axes[2].out);
  const double outputs = static_cast<double>(shape.batch * shape.out_channels) * pixels;
  const double in_elements = static_cast<double>(shape.batch * shape.in_channels * shape.axes[0].in) *
                             static_cast<double>(shape.axes[1].in * shape.axes[2].in);
  const double memory = (outputs + in_elements) * shape.element_bytes() / kBandwidth;
  const double depth = static_cast<double>(shape.axes[0].taps * shape.fan_in);
  if (design.kernel == DepthwiseKernel::general) {
    return kLaunch + outputs * static_cast<double>(shape.taps() * shape.fan_in) * 40 / (sms * 128 * kClock) + memory;
  }
  const Tiling t = tiling_of(shape, design);
  const bool half = shape.element_bytes() == 2;
  const double vector = static_cast<double>(design.vector);
  double tile = static_cast<double>(design.rows * design.columns);  // outputs of a channel in a thread's tile
  double products = tile * static_cast<double>(plane_taps(shape));
  if (shape.transposed) products /= static_cast<double>(shape.axes[1].stride * shape.axes[2].stride);
  double inputs = static_cast<double>(t.h.span() * t.w.span());
  double tiles = static_cast<double>(t.h.tiles() * t.w.tiles());
  if (design.kernel == DepthwiseKernel::rolling) {
    const auto strip = static_cast<double>(std::min(design.rows, shape.axes[1].out));
    const double walked =
        std::min(static_cast<double>(shape.axes[1].in), strip + static_cast<double>(shape.axes[1].taps - 1));
    products = walked * static_cast<double>(design.columns * plane_taps(shape));
    inputs = walked * static_cast<double>(t.w.span());
    tile = strip * static_cast<double>(design.columns);
    tiles = std::ceil(static_cast<double>(shape.axes[1].out) / strip) * static_cast<double>(t.w.tiles());
  }
  // Instructions of a tile and channel: a multiply-add takes more than its slot for want of register ports.
  double slots = 1.35 * products * depth;
  slots += inputs * depth * (1.6 / vector + (half ? 1.0 : 0.25));
  slots += tile * (1.6 / vector + (half ? 0.6 : 0.1));
  slots += static_cast<double>(plane_taps(shape)) * depth * 1.2 / (wgrad(shape) ? 4 : 1) + 90 / vector;
  if (design.kernel == DepthwiseKernel::planes) slots += 1.5 * inputs + tile;
  const DepthwiseBlocks blocks = blocks_of(shape, design, device, target_sms);
  const double threads = static_cast<double>(blocks.threads * blocks.blocks_per_sm);
  // Few threads leave issue slots and memory idle.
  const double busy = std::min(1.0, 0.55 + threads / 2048);
  const double issue = slots * tiles * static_cast<double>(shape.batch * shape.out_channels * shape.axes[0].out) /
                       (sms * 128 * kClock * busy);
  // Blocks that don't fill the processors a whole number of times.
  const double slots_of_blocks = sms * static_cast<double>(blocks.blocks_per_sm);
  const double waves = static_cast<double>(blocks.grid) / slots_of_blocks;
  const double idle = waves < 8 ? std::ceil(waves) / waves : 1;
  const double seconds = std::max(memory / std::min(1.0, 0.75 + threads / 4096), issue * std::min(idle, 8.0)) +
                         0.15 * std::min(memory, issue);
  return kLaunch + seconds + (wgrad(shape) ? kLaunch : 0);
}

std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms) {
  std::vector<DepthwiseDesign> designs;
  const auto add = [&](const DepthwiseDesign& design) {
    if (legal(shape, design, device)) designs.push_back(design);
  };
  if (fits_tuned(shape)) {
    const bool planar = shape.in_order && !shape.volumetric() && shape.alignment % 16 == 0;
    const std::int64_t step_h = shape.transposed ? shape.axes[1].stride : 1;
    const std::int64_t step_w = shape.transposed ? shape.axes[2].stride : 1;
    for (const std::int64_t rows : {1, 2, 4, 7, 8, 14}) {
      if (rows > 1 && rows / 2 >= std::max<std::int64_t>(shape.axes[1].out, step_h)) continue;
      for (const std::int64_t columns : {1, 2, 4, 7, 8, 14}) {
        if (columns > 1 && columns / 2 >= std::max<std::int64_t>(shape.axes[2].out, step_w)) continue;
        if (planar) {
          add({DepthwiseKernel::planes, rows, columns, 1});
          continue;
        }
        for (const std::int64_t vector : {1, 2, 4, 8}) {
          if (vector_fits(shape, vector)) add({DepthwiseKernel::patch, rows, columns, vector});
        }
      }
    }
    if (!planar && fits_rolling(shape) && plane_taps(shape) >= 16) {
      for (const std::int64_t columns : {1, 2, 4, 7, 8}) {
        if (columns > 1 && columns / 2 >= shape.axes[2].out) continue;
        for (const std::int64_t rows : {14, 28, 56, 112, 250, 500}) {
          if (rows > 14 && rows / 2 >= shape.axes[1].out) continue;
          add({DepthwiseKernel::rolling, rows, columns, 1});
        }
      }
    }
  }
  std::vector<std::pair<double, DepthwiseDesign>> ranked;
  for (const DepthwiseDesign& design : designs) {
    ranked.emplace_back(predicted_seconds(shape, design, device, target_sms), design);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  designs.clear();
  for (const auto& [seconds, design] : ranked) {
    if (static_cast<std::int64_t>(designs.size()) < kMostDesigns - 1) designs.push_back(design);
  }
  designs.push_back({});  // general
  return designs;
}

}  // namespace convoy::cuda
