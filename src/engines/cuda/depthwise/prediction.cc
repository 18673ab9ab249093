#include <algorithm>
#include <cmath>

#include "engines/cuda/depthwise/blocks.h"
#include "engines/cuda/depthwise/pixel_bands.h"

namespace convoy::cuda {
namespace {

constexpr double kClock = 1.98e9;

// What a design does: of a thread's tile ...
struct Work {
  double products = 0, loads = 0, converts = 0, stores = 0, tiles = 1, weights = 0;
  double shared = 0;         // elements of shared memory, times the conflicts between its banks
  double threads_tiles = 0;  // ... and how many tiles there are
  double bytes = 0;          // of device memory
  double threads = 0;        // a processor has at once
  double waves = 0;          // of blocks
  double balance = 1;        // share of their time that blocks have work, where they walk over several units
};

// What that costs a family of kernels.
struct Costs {
  double product, load, convert, store, tile, weight;  // issue slots of a lane
  double shared;                                       // slots of shared memory
  double memory;                                       // terabytes a second
  double few_threads;  // threads a processor with which waiting for memory takes twice as long
  double tail;         // share of a last wave's empty places that counts
  double unhidden;     // share of the shorter times that is not hidden behind the longest
  double launch;       // microseconds
};
// Fitted, by least squares of logarithms, to what an H200 took for 128 images of the depthwise layers of ConvNeXt-T,
// MobileNetV2 and EfficientNet-B0, f32 and bf16, several tiles each. Where the last wave's share could not be told from
// these it is a guess.
struct FamilyCosts {
  Costs forward, wgrad;
};
constexpr FamilyCosts kPatch{{0.76, 6.4, 0.62, 3.7, 0.02, 9.3, 0.02, 4.9, 55, 0.1, 0.46, 2.7},
                             {1.24, 0.15, 3.95, 0.02, 70, 0.02, 0.02, 4.4, 25, 0.25, 0.61, 3.2}};
constexpr FamilyCosts kRolling{{0.9, 0, 3.7, 11, 360, 23, 0, 4.3, 56, 0.3, 0.39, 0},
                               {1.35, 0, 0, 18, 570, 0, 0, 4.8, 117, 0.3, 0.19, 4.2}};
constexpr FamilyCosts kPlanes{{1.72, 0.02, 1.85, 5.5, 82, 0.02, 0.96, 5.1, 81, 0.38, 0.22, 2.8},
                              {1.43, 0.02, 1.22, 0.02, 46, 0.02, 0.89, 5.1, 14, 0.48, 0.54, 3.9}};
constexpr Costs kMma{4.1, 5.1, 30, 18, 0, 47, 0.07, 4.4, 39, 0.94, 0.43, 0};
constexpr FamilyCosts kPlaneBands{{3.5, 1.15, 98, 6.3, 42, 4.7, 0.64, 5.2, 42, 0.5, 0.15, 4.8},
                                  {8.1, 2.9, 59, 8, 33, 5.1, 0.94, 5.6, 53, 0.33, 0.24, 6.5}};
// Fitted to the layers with long filters of problems/speech1d.txt.
constexpr FamilyCosts kSignal{{1.23, 27, 6, 0, 4.4, 60, 0, 4.7, 290, 1, 0.45, 0},
                              {1.37, 30, 6, 40, 0, 3.2, 1.2, 4.7, 400, 1, 0.06, 6}};
constexpr FamilyCosts kSignalNhwc{{1.3, 30, 0, 0, 230, 60, 0.94, 4.1, 27, 0.76, 0.09, 3.6},
                                  {1.23, 30, 1.2, 0, 0.5, 8.8, 0.37, 4.8, 61, 0.86, 0.33, 6}};

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

Work lanes_work(const DepthwiseShape& shape, const DepthwiseDesign& design, const DepthwiseBlocks& blocks) {
  const Tiling t = tiling_of(shape, design);
  const auto vector = static_cast<double>(design.vector);
  const auto depth = static_cast<double>(shape.axes[0].taps * shape.fan_in);
  const auto taps = static_cast<double>(plane_taps(shape));
  const bool half = shape.element_bytes() == 2;
  Work work;
  auto tile = static_cast<double>(design.rows * design.columns);  // outputs of a channel in a thread's tile
  work.products = tile * taps * depth;
  if (shape.transposed) work.products /= static_cast<double>(shape.axes[1].stride * shape.axes[2].stride);
  double inputs = static_cast<double>(t.h.span() * t.w.span()) * depth;
  auto tiles_h = static_cast<double>(t.h.tiles());
  if (design.kernel == DepthwiseKernel::rolling) {
    const auto strip = static_cast<double>(std::min(design.rows, shape.axes[1].out));
    const double walked =
        std::min(static_cast<double>(shape.axes[1].in), strip + static_cast<double>(shape.axes[1].taps - 1));
    work.products = walked * static_cast<double>(design.columns) * taps;
    inputs = walked * static_cast<double>(t.w.span());
    tile = strip * static_cast<double>(design.columns);
    tiles_h = std::ceil(static_cast<double>(shape.axes[1].out) / strip);
  }
  work.loads = inputs / vector;
  work.converts = half ? inputs : inputs * 0.1;
  work.stores = tile / vector + (half ? tile * 0.2 : 0);
  work.tiles = 1 / vector;
  work.weights = wgrad(shape) ? 0 : taps * depth;
  const auto images = static_cast<double>(shape.batch * shape.out_channels * shape.axes[0].out);
  work.threads_tiles = tiles_h * static_cast<double>(t.w.tiles()) * images;
  if (design.kernel == DepthwiseKernel::planes) {
    // Weights are read once for all images of a block.
    if (blocks.stages == 2) work.weights /= static_cast<double>(ceil_div(shape.batch, blocks.splits));
    const auto conflicts = [&](std::int64_t step_h, std::int64_t step_w, std::int64_t height, std::int64_t width) {
      return bank_conflicts(t.h.tiles(), t.w.tiles(), step_h, step_w, width, height * width, shape.element_bytes());
    };
    const double in_conflicts = conflicts(t.h.step(), t.w.step(), shape.axes[1].in, shape.axes[2].in);
    const double out_conflicts =
        wgrad(shape) ? in_conflicts : conflicts(design.rows, design.columns, shape.axes[1].out, shape.axes[2].out);
    work.shared = inputs * in_conflicts + tile * out_conflicts;
  }
  return work;
}

// A tile is a pair of units of the tensor cores' kernels, a product one of matrices.
Work mma_work(const DepthwiseShape& shape, const DepthwiseDesign& design, const DepthwiseBlocks& blocks) {
  const std::int64_t columns = shape.transposed ? shape.axes[2].stride : 1;
  const TileAxis w{shape.axes[2], columns, shape.transposed};
  const DepthwiseAxis& axis = shape.axes[1];
  Work work;
  const TileAxis h{axis, blocks.tile_h, shape.transposed};
  const std::int64_t channel_tiles = design.vector / 8;
  const std::int64_t pairs = ceil_div(blocks.images * blocks.block_h * blocks.block_w, 2);
  work.products = static_cast<double>(blocks.tile_h * axis.taps * ceil_div(shape.axes[2].taps, 2) * channel_tiles);
  if (shape.transposed) work.products *= 1.5 / static_cast<double>(axis.stride);
  work.loads = static_cast<double>(h.span() * w.span() * 2);
  work.stores = static_cast<double>(blocks.tile_h * columns * 2);
  const std::int64_t places = ceil_div(h.tiles(), blocks.block_h) * ceil_div(w.tiles(), 8 * blocks.block_w) *
                              ceil_div(shape.batch, blocks.images);
  const std::int64_t slices = ceil_div(shape.out_channels, design.vector * blocks.channel_warps);
  work.threads_tiles = static_cast<double>(32 * pairs * places * slices * blocks.channel_warps);
  // 16 bytes copied, of a thread for each pair.
  const std::int64_t pixels =
      ((blocks.block_h - 1) * h.step() + h.reach()) * ((8 * blocks.block_w - 1) * w.step() + w.reach());
  work.converts = static_cast<double>(blocks.images * pixels * design.vector) / 8 / static_cast<double>(32 * pairs);
  work.weights = static_cast<double>(plane_taps(shape) * channel_tiles) /
                 static_cast<double>(std::max<std::int64_t>(1, places * pairs / blocks.splits));
  work.shared = work.loads * static_cast<double>(channel_tiles);
  return work;
}

// A tile is a step of a warp's 16 blocks.
Work bands_work(const DepthwiseShape& shape, const DepthwiseDesign& design, const DepthwiseBlocks& blocks,
                int architecture) {
  const BandCounts counts = band_counts(shape, design);
  const std::int64_t units = ceil_div(shape.batch, design.vector);
  Work work;
  const double steps = static_cast<double>(counts.groups * counts.steps * units) *
                       static_cast<double>(round_up(shape.out_channels, design.columns));
  work.threads_tiles = 32 * steps;
  work.products = static_cast<double>(counts.products);
  work.loads =
      static_cast<double>(counts.step_in * (wgrad(shape) ? 4 * ceil_div(counts.halves, 2) : 2 * counts.halves));
  if (shape.axes[2].in % 2 != 0) work.loads *= 2;
  if (wgrad(shape)) work.loads += 4;
  if (!wgrad(shape)) work.stores = static_cast<double>(counts.step_out * (shape.axes[2].out % 2 == 0 ? 2 : 4));
  // 16 bytes copied, of a thread for each step, unless the copy engine does it.
  const auto whole = [&](std::int64_t plane, std::int64_t channels) {
    return channels * plane * 2 % 16 == 0 && design.columns * plane * 2 % 16 == 0 && channels % design.columns == 0;
  };
  const std::int64_t in_plane = shape.axes[1].in * shape.axes[2].in, out_plane = shape.axes[1].out * shape.axes[2].out;
  const bool bulk_in = architecture >= 90 && whole(in_plane, shape.in_channels);
  const bool bulk_out = architecture >= 90 && whole(out_plane, shape.out_channels);
  const std::int64_t copied = (bulk_in ? 0 : in_plane) + (bulk_out ? 0 : out_plane);
  work.converts = 2 * static_cast<double>(shape.batch * shape.out_channels * copied) / 16 / work.threads_tiles;
  work.weights = static_cast<double>(counts.h.taps * counts.halves * 4 * blocks.shares) /
                 static_cast<double>(units * ceil_div(counts.groups, blocks.channel_warps) * counts.steps);
  work.shared = work.loads + work.stores + 4 * work.converts;
  return work;
}

// A tile is a thread's for one image; what blocks copy beside their own segment is copied again.
Work signal_work(const DepthwiseShape& shape, const DepthwiseDesign& design, const DepthwiseBlocks& blocks) {
  const SignalRows rows = signal_rows(shape, design);
  const DepthwiseAxis& axis = signal_axis(shape);
  const bool channels_last = signal_channels_last(shape);
  const auto tile = static_cast<double>(design.columns);
  const auto taps = static_cast<double>(rows.group_taps);
  // Elements that a copy moves at once.
  const std::int64_t wide = 16 / shape.element_bytes();
  const bool fours = !channels_last && shape.in_order && axis.in % 4 == 0 && axis.out % 4 == 0;
  const bool in_fours = fours && (shape.transposed || (axis.stride == 1 && axis.dilation == 1));
  const bool out_fours = fours && !shape.transposed && axis.dilation == 1;
  const double in_piece = channels_last ? static_cast<double>(wide) : in_fours ? 4 : 1;
  const double out_piece = channels_last ? (wgrad(shape) ? static_cast<double>(wide) : 1) : out_fours ? 4 : 1;
  const auto per_thread = static_cast<double>(design.vector) / static_cast<double>(blocks.threads);
  Work work;
  work.products = taps * tile;
  work.loads = static_cast<double>(rows.in_positions) * per_thread / in_piece;
  work.stores = static_cast<double>(rows.out_positions) * per_thread / out_piece;
  if (shape.element_bytes() == 2) work.converts = channels_last ? 2 * taps + tile : work.loads + work.stores;
  work.weights = wgrad(shape) ? 0
                              : static_cast<double>(axis.taps * design.vector) /
                                    static_cast<double>(blocks.threads * ceil_div(shape.batch, blocks.image_splits));
  // Windows, taps or gradients, and what is copied.
  work.shared = tile + taps +
                (channels_last  ? taps
                 : wgrad(shape) ? tile
                                : taps / 4 + 2 * tile) +
                static_cast<double>(rows.in_positions + rows.out_positions) * per_thread;
  const std::int64_t blocks_of_image = blocks.grid / blocks.image_splits;
  work.threads_tiles = static_cast<double>(blocks_of_image) * static_cast<double>(blocks.threads * shape.batch);
  return work;
}

const Costs& costs_of(const DepthwiseShape& shape, DepthwiseKernel kernel) {
  if (kernel == DepthwiseKernel::mma) return kMma;
  if (kernel == DepthwiseKernel::signal) {
    const FamilyCosts& family = signal_channels_last(shape) ? kSignalNhwc : kSignal;
    return wgrad(shape) ? family.wgrad : family.forward;
  }
  const FamilyCosts& family = kernel == DepthwiseKernel::planes        ? kPlanes
                              : kernel == DepthwiseKernel::plane_bands ? kPlaneBands
                              : kernel == DepthwiseKernel::rolling     ? kRolling
                                                                       : kPatch;
  return wgrad(shape) ? family.wgrad : family.forward;
}

}  // namespace

double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms) {
  const double sms = std::max(1, target_sms > 0 ? std::min(target_sms, device.sm_count) : device.sm_count);
  const auto outputs = static_cast<double>(shape.outputs());
  const double inputs = static_cast<double>(shape.batch * shape.in_channels * shape.axes[0].in) *
                        static_cast<double>(shape.axes[1].in * shape.axes[2].in);
  const double bytes = (outputs + inputs) * shape.element_bytes();
  if (design.kernel == DepthwiseKernel::general) {
    return 5e-6 + outputs * static_cast<double>(shape.taps() * shape.fan_in) * 60 / (sms * 128 * kClock) + bytes / 3e12;
  }
  const DepthwiseBlocks blocks = blocks_of(shape, design, device, target_sms);
  if (design.kernel == DepthwiseKernel::pixel_bands) return bands_seconds(shape, design, blocks, sms);
  Work work = design.kernel == DepthwiseKernel::signal        ? signal_work(shape, design, blocks)
              : design.kernel == DepthwiseKernel::plane_bands ? bands_work(shape, design, blocks, device.architecture)
              : design.kernel == DepthwiseKernel::mma         ? mma_work(shape, design, blocks)
                                                              : lanes_work(shape, design, blocks);
  work.bytes = bytes;
  work.threads = static_cast<double>(blocks.blocks_per_sm * blocks.threads);
  // Threads that load 8 or 16 bytes at a time wait for as much as more of those that load 4.
  if (design.kernel == DepthwiseKernel::patch) {
    work.threads *= std::sqrt(static_cast<double>(design.vector * shape.element_bytes()) / 4);
  }
  work.waves = static_cast<double>(blocks.grid) / (sms * static_cast<double>(blocks.blocks_per_sm));
  work.balance = blocks.balance;
  // Parts of planar rows take a third longer to write, for a reason that isn't known.
  if (design.kernel == DepthwiseKernel::signal && !wgrad(shape) && !signal_channels_last(shape) &&
      blocks.segments > 1) {
    work.balance *= 0.75;
  }
  // Two bytes at a time take a tenth longer.
  if (design.kernel == DepthwiseKernel::patch && wgrad(shape) && design.vector == 1 && shape.element_bytes() == 2) {
    work.balance *= 0.9;
  }

  const Costs& costs = costs_of(shape, design.kernel);
  const double slots = costs.product * work.products + costs.load * work.loads + costs.convert * work.converts +
                       costs.store * work.stores + costs.tile * work.tiles + costs.weight * work.weights;
  double times[] = {slots * work.threads_tiles / (sms * 128 * kClock),
                    work.bytes / (costs.memory * 1e12) * (1 + costs.few_threads / work.threads),
                    costs.shared * work.shared * work.threads_tiles / (sms * 32 * kClock)};
  std::sort(times, times + 3);
  const double filled = work.waves / (work.waves + costs.tail * (std::ceil(work.waves) - work.waves)) * work.balance;
  return costs.launch * 1e-6 + times[2] / filled + costs.unhidden * (times[0] + times[1]);
}

}  // namespace convoy::cuda
