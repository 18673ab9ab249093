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
  return patch + filter + (design.vector == 1 ? (3 * rows + 3) / 4 : rows) + 8;
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
  const std::int64_t strips = (tiles_h + blocks.strip_tiles - 1) / blocks.strip_tiles;
  // Shares of sums are written and read again: they should stay small beside the tensors.
  const std::int64_t tensors = (shape.batch * shape.in_channels * shape.axes[1].in * shape.axes[2].in +
                                shape.batch * shape.out_channels * shape.axes[1].out * shape.axes[2].out) *
                               shape.element_bytes();
  const std::int64_t shares = plane_taps(shape) * shape.out_channels * 4;
  const std::int64_t most_splits = std::clamp<std::int64_t>(tensors / (8 * shares), 1, shape.batch * strips);
  const auto groups = [&] { return (shape.out_channels + blocks.planes - 1) / blocks.planes; };
  if (wgrad(shape) && shape.multiplier == 1) {
    while (blocks.planes > 8 && groups() * most_splits < 2 * sms) blocks.planes /= 2;
  }
  const PlaneBytes bytes = plane_bytes(shape, design, blocks.planes, blocks.strip_tiles);
  blocks.shared_bytes = bytes.total;
  if (wgrad(shape)) {
    const std::int64_t sums = std::max(blocks.planes, blocks.threads / 32) * plane_taps(shape) * 4;
    blocks.shared_bytes = std::max(bytes.total, sums);
  }
  const std::int64_t wanted = std::clamp<std::int64_t>(registers_wanted(shape, design, 0), 32, 255);
  blocks.blocks_per_sm =
      std::clamp<std::int64_t>(kRegistersPerSm / ((wanted + 7) / 8 * 8 * blocks.threads), 1, 2048 / blocks.threads);
  blocks.blocks_per_sm = std::min(blocks.blocks_per_sm,
                                  std::max<std::int64_t>(1, device.shared_bytes_per_sm / (blocks.shared_bytes + 1024)));
  if (wgrad(shape)) {
    blocks.splits =
        std::min(most_splits, std::max<std::int64_t>(1, (sms * blocks.blocks_per_sm + groups() - 1) / groups()));
    blocks.grid = groups() * blocks.splits;
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
           registers_wanted(shape, design, 0) <= 200;
  }
  const double products = static_cast<double>(design.rows * design.columns * design.vector) *
                          static_cast<double>(taps) /
                          (shape.transposed ? static_cast<double>(shape.axes[1].stride * shape.axes[2].stride) : 1);
  if (products > kMostProducts || t.h.span() > 64 || t.w.span() > 160) return false;
  if (registers_wanted(shape, design, 1) > kMostRegisters) return false;
  // Larger patches leave too few threads for what they save.
  const bool light = taps < 16 && !shape.transposed;
  const std::int64_t patch = design.rows * design.columns * design.vector;
  if (design.kernel == DepthwiseKernel::patch && !wgrad(shape) && patch > (light ? 36 : 64)) return false;
  // Sums of several large filters leave room for neither pixels nor threads.
  if (wgrad(shape) && taps * design.vector > (design.vector > 1 ? 64 : 128)) return false;
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

namespace {

// What a family of kernels was measured to take on an H200 (128 images of the depthwise layers of MobileNetV2 and
// ConvNeXt-T, every tile, f32 and bf16; fitted by least squares of logarithms): issue slots of a lane for each kind of
// instruction, where a multiply-add takes more than one for want of register ports; terabytes a second of memory;
// slots of shared memory an element; the share of the shorter times that is not hidden behind the longest; microseconds
// of a launch.
struct Costs {
  double multiply_add, load, convert, store, tile, weight;
  double memory, shared_in, shared_out;
  double few_threads_memory, few_threads_issue;  // threads a processor with which these take twice as long
  double unhidden, launch, second_launch;
};
constexpr Costs kLanesForward{1.1, 4.95, 2.1, 2.94, 4.87, 6.46, 4.6, 0, 0, 40, 0, 0.41, 3.54, 0};
constexpr Costs kLanesWgrad{1.05, 3.96, 2.42, 11.9, 45.1, 0, 4.01, 0, 0, 0, 0, 0.41, 3.19, 2.07};
constexpr Costs kPlanesForward{1.51, 0, 0, 0.26, 9.75, 2.59, 4.6, 0.7, 1.01, 17, 143, 0.17, 8.37, 0};
constexpr Costs kPlanesWgrad{1.47, 0, 0, 0.01, 164, 9.16, 4.6, 0.61, 1.63, 0, 293, 0.05, 7.46, 6.74};

// How many words of the fullest of shared memory's 32 banks a warp asks for at once, when its threads' tiles begin
// step_h rows and step_w columns apart in planes of `plane` elements, `width` wide.
double bank_conflicts(std::int64_t tiles_h, std::int64_t tiles_w, std::int64_t step_h, std::int64_t step_w,
                      std::int64_t width, std::int64_t plane, int element_bytes) {
  std::int64_t words[32];
  int counts[32] = {};
  int most = 1;
  for (int lane = 0; lane < 32; ++lane) {
    const std::int64_t row_of_tiles = lane / tiles_w;
    const std::int64_t at =
        row_of_tiles / tiles_h * plane + row_of_tiles % tiles_h * step_h * width + lane % tiles_w * step_w;
    words[lane] = at * element_bytes / 4;
    // Threads that ask for one word share it; they are neighbours.
    if (lane == 0 || words[lane] != words[lane - 1]) most = std::max(most, ++counts[words[lane] % 32]);
  }
  return most;
}

}  // namespace

double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms) {
  constexpr double kClock = 1.98e9;
  const double sms = std::max(1, target_sms > 0 ? std::min(target_sms, device.sm_count) : device.sm_count);
  const double images = static_cast<double>(shape.batch * shape.out_channels * shape.axes[0].out);
  const double outputs = images * static_cast<double>(shape.axes[1].out * shape.axes[2].out);
  const double inputs_all = static_cast<double>(shape.batch * shape.in_channels * shape.axes[0].in) *
                            static_cast<double>(shape.axes[1].in * shape.axes[2].in);
  const int size = shape.element_bytes();
  if (design.kernel == DepthwiseKernel::general) {
    return 5e-6 + outputs * static_cast<double>(shape.taps() * shape.fan_in) * 60 / (sms * 128 * kClock) +
           (outputs + inputs_all) * size / 3e12;
  }
  const bool planes = design.kernel == DepthwiseKernel::planes;
  const Costs& costs =
      planes ? (wgrad(shape) ? kPlanesWgrad : kPlanesForward) : (wgrad(shape) ? kLanesWgrad : kLanesForward);
  const Tiling t = tiling_of(shape, design);
  const double vector = static_cast<double>(design.vector);
  const double depth = static_cast<double>(shape.axes[0].taps * shape.fan_in);
  const double taps = static_cast<double>(plane_taps(shape));
  double tile = static_cast<double>(design.rows * design.columns);  // outputs of a channel in a thread's tile
  double products = tile * taps;
  if (shape.transposed) products /= static_cast<double>(shape.axes[1].stride * shape.axes[2].stride);
  double inputs = static_cast<double>(t.h.span() * t.w.span());
  double tiles_h = static_cast<double>(t.h.tiles());
  const double tiles_w = static_cast<double>(t.w.tiles());
  if (design.kernel == DepthwiseKernel::rolling) {
    const auto strip = static_cast<double>(std::min(design.rows, shape.axes[1].out));
    const double walked =
        std::min(static_cast<double>(shape.axes[1].in), strip + static_cast<double>(shape.axes[1].taps - 1));
    products = walked * static_cast<double>(design.columns) * taps;
    inputs = walked * static_cast<double>(t.w.span());
    tile = strip * static_cast<double>(design.columns);
    tiles_h = std::ceil(static_cast<double>(shape.axes[1].out) / strip);
  }
  double slots = costs.multiply_add * products * depth +
                 inputs * depth * (costs.load / vector + (size == 2 ? costs.convert : 0.25));
  slots += tile * (costs.store / vector + (size == 2 ? 0.6 : 0.1));
  slots += costs.tile / vector + costs.weight * taps * depth * (wgrad(shape) ? 0.25 : 1);
  const double threads_tiles = tiles_h * tiles_w * images;
  const double registers = static_cast<double>(std::clamp<std::int64_t>(
      (registers_wanted(shape, design, plane_taps(shape) < 16 && t.h.span() > 2 ? 2 : 1) + 7) / 8 * 8, 32, 255));
  const double threads = std::min(2048.0, static_cast<double>(kRegistersPerSm) / registers);
  const double issue = slots * threads_tiles / (sms * 128 * kClock) * (1 + costs.few_threads_issue / threads);
  const double memory =
      (outputs + inputs_all) * size / (costs.memory * 1e12) * (1 + costs.few_threads_memory / threads);
  double third = 0;  // shared memory
  if (planes) {
    const auto conflicts = [&](std::int64_t step_h, std::int64_t step_w, const std::int64_t height,
                               std::int64_t width) {
      return bank_conflicts(t.h.tiles(), t.w.tiles(), step_h, step_w, width, height * width, size);
    };
    const double in_conflicts = conflicts(t.h.step(), t.w.step(), shape.axes[1].in, shape.axes[2].in);
    const double out_conflicts =
        wgrad(shape) ? in_conflicts : conflicts(design.rows, design.columns, shape.axes[1].out, shape.axes[2].out);
    third = threads_tiles * (inputs * in_conflicts * costs.shared_in + tile * out_conflicts * costs.shared_out) /
            (sms * 32 * kClock);
  }
  double times[] = {issue, memory, third};
  std::sort(times, times + 3);
  // Blocks that don't fill the processors; strips are few and long, so that their last wave counts too.
  const DepthwiseBlocks blocks = blocks_of(shape, design, device, target_sms);
  const double waves = static_cast<double>(blocks.grid) / (sms * static_cast<double>(blocks.blocks_per_sm));
  const double filled =
      design.kernel == DepthwiseKernel::rolling && !wgrad(shape)
          ? waves / std::ceil(waves)
          : std::min(1.0, static_cast<double>(blocks.grid * blocks.threads) / (sms * std::min(512.0, threads)));
  return (costs.launch + (wgrad(shape) ? costs.second_launch : 0)) * 1e-6 + times[2] / filled +
         costs.unhidden * (times[0] + times[1]);
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
      // Narrower strips than the image allows read too much beside what they use.
      for (const std::int64_t columns : {1, 2, 4, 7, 8}) {
        if (columns > 1 && columns / 2 >= shape.axes[2].out) continue;
        if (columns < 7 && columns * 2 <= shape.axes[2].out && shape.axes[2].out > 1) continue;
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
