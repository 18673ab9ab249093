// f16 and bf16, packed NCHW and NCW, one filter a channel: tensor cores, a row of taps as a banded matrix
// (depthwise_nchw_bands.cu, .._wgrad.cu; docs/cuda-kernels.md).
#include <algorithm>
#include <bit>

#include "engines/cuda/depthwise/prediction.h"

namespace convoy::cuda {
namespace {

constexpr FamilyCosts kCosts{{3.5, 1.15, 98, 6.3, 42, 4.7, 0.64, 5.2, 42, 0.5, 0.15, 4.8},
                             {8.1, 2.9, 59, 8, 33, 5.1, 0.94, 5.6, 53, 0.33, 0.24, 6.5}};
constexpr std::int64_t kMostWarps = 8;          // of a block
constexpr std::int64_t kLeastStage = 4 * 1024;  // bytes: smaller ones wait for memory and for one another
constexpr std::int64_t kMostStage = 40 * 1024;

std::int64_t in_plane(const DepthwiseShape& shape) { return shape.axes[1].in * shape.axes[2].in; }
std::int64_t out_plane(const DepthwiseShape& shape) { return shape.axes[1].out * shape.axes[2].out; }

// Bytes between images in shared memory: room for the planes and their phase, and so that the first places of a group's
// blocks, 16 bytes each, lie in different banks, or as many of them as can be.
std::int64_t pitch_of(std::int64_t bytes, std::int64_t row_bytes, std::int64_t block_bytes, std::int64_t blocks_w,
                      std::int64_t bands) {
  const std::int64_t least = (bytes + 15) / 16 * 16 + 16;
  std::int64_t best = least;
  int most = 0;
  for (std::int64_t pitch = least; pitch < least + 128; pitch += 16) {
    unsigned slots = 0;  // of 16 bytes, of the banks'
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t at =
          i / (blocks_w * bands) * pitch + i / blocks_w % bands * row_bytes + i % blocks_w * block_bytes;
      slots |= 1U << at / 16 % 8;
    }
    if (std::popcount(slots) > most) {
      most = std::popcount(slots);
      best = pitch;
    }
  }
  return best;
}

// Signals whose rows of 8 outputs begin at whole numbers of pairs; wgrad and strided dgrad take them as planes of a
// row.
bool folded(const DepthwiseShape& shape) {
  return shape.axes[1].in == 1 && shape.axes[1].out == 1 && shape.axes[1].taps == 1 && !shape.transposed &&
         (!wgrad(shape) || shape.axes[2].stride <= 2) && shape.axes[2].out > 64;
}

// The rows that bands are of.
DepthwiseAxis folded_rows(const DepthwiseShape& shape, std::int64_t window) {
  if (!folded(shape)) return shape.axes[1];
  const DepthwiseAxis& w = shape.axes[2];
  DepthwiseAxis rows;
  const std::int64_t row_taps = wgrad(shape) ? 16 : 8 * w.stride;
  rows.taps = (7 * w.stride + (w.taps - 1) * w.dilation - w.pad - window) / row_taps + 1;
  rows.dilation = row_taps / (8 * w.stride);
  rows.out = ceil_div(w.out, 8);
  rows.in = rows.out + (rows.taps - 1) * rows.dilation;
  return rows;
}

// plane_bands.cuh's arithmetic, and that of the two kernels.
struct Counts {
  std::int64_t open = 1;      // rows at work at once
  std::int64_t halves = 1;    // of a window: 8 columns each
  std::int64_t window = 0;    // its first column, from the block's first
  std::int64_t steps = 1;     // of a band
  std::int64_t step_in = 1;   // rows of input a step
  std::int64_t step_out = 1;  // rows of output
  std::int64_t blocks = 1;    // of 8 columns, of a channel and a unit of images
  std::int64_t groups = 1;    // of 16 of them
  std::int64_t products = 1;  // of matrices, of a group's step
  std::int64_t registers = 40;
  DepthwiseAxis h;      // rows, of a folded signal those of 8 outputs
  bool folded = false;  // a signal in rows of 8
};

struct Blocks : DepthwiseBlocks {
  std::int64_t channel_warps = 1;
  std::int64_t pitch = 16, out_pitch = 16;  // bytes between images in shared memory
  std::int64_t stages = 1;                  // inputs there at once
  std::int64_t shares = 1;                  // of the batch
};

struct PlaneBands {
  static constexpr const char* word = "plane_bands";
  static constexpr std::array<DepthwiseKnob, 3> knobs = {
      {{"channels", "of a block"}, {"images", "of a block"}, {"rows", "of a band"}}};
  static constexpr bool skips_padding = true;
  std::int64_t channels, images, rows;

  static std::vector<PlaneBands> configurations(const DepthwiseShape& shape, const CudaDevice& device);
  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const;
  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const;

  Counts counts(const DepthwiseShape& shape) const;
  Blocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const;
};

Counts PlaneBands::counts(const DepthwiseShape& shape) const {
  const DepthwiseAxis& w = shape.axes[2];
  const std::int64_t reach_w = (w.taps - 1) * w.dilation;
  Counts counts;
  // Windows begin at even columns where rows do, so that elements can be loaded in pairs.
  counts.window = shape.transposed ? -floor_div(reach_w - w.pad, w.stride) : -w.pad;
  if (w.in % 2 == 0) counts.window = floor_div(counts.window, 2) * 2;
  std::int64_t last = shape.transposed ? floor_div(7 + w.pad, w.stride) : 7 * w.stride + reach_w - w.pad;
  // Where a block is all there is of a row, so is the row of the window.
  if (w.out <= 8 && !wgrad(shape)) {
    counts.window = std::max<std::int64_t>(counts.window, 0);
    last = std::min(last, w.in - 1);
  }
  counts.halves = std::max<std::int64_t>(1, ceil_div(last - counts.window + 1, 8));

  counts.h = folded_rows(shape, counts.window);
  counts.folded = folded(shape);
  if (counts.folded) counts.halves = wgrad(shape) ? 2 : w.stride;
  const DepthwiseAxis& h = counts.h;
  const std::int64_t reach_h = (h.taps - 1) * h.dilation;
  const std::int64_t bands = ceil_div(h.out, rows);
  counts.step_in = shape.transposed ? 1 : h.stride;
  counts.step_out = shape.transposed ? h.stride : 1;
  counts.open = shape.transposed ? std::max(reach_h + 1, h.stride) : reach_h / h.stride + 1;
  if (wgrad(shape)) {
    counts.steps =
        bands > 1 ? rows + counts.open - 1 : std::min(h.out + counts.open - 1, (h.in - 1 + h.pad) / h.stride + 1);
  } else if (shape.transposed) {
    counts.steps = ceil_div(rows + reach_h, h.stride);
  } else {
    counts.steps =
        rows + (bands > 1 ? counts.open - 1 : std::clamp<std::int64_t>(reach_h - h.pad, 0, reach_h) / h.stride);
  }
  counts.blocks = images * bands * (counts.folded ? 1 : ceil_div(w.out, 8));
  counts.groups = ceil_div(counts.blocks, 16);
  counts.products = h.taps * ceil_div(counts.halves, 2);
  const std::int64_t columns = ceil_div(counts.halves, 2);
  counts.registers = wgrad(shape) ? h.taps * columns * 4 + counts.open * 2 + 2 * (counts.step_in * columns * 4 + 4) + 60
                                  : counts.open * 4 + h.taps * counts.halves + 4 * counts.step_in * counts.halves + 50;
  return counts;
}

std::vector<PlaneBands> PlaneBands::configurations(const DepthwiseShape& shape, const CudaDevice& device) {
  if (shape.element_bytes() != 2 || shape.volumetric() || shape.multiplier != 1 || shape.fan_in != 1 ||
      !shape.in_order || !shape.filters_packed || shape.alignment % 16 != 0) {
    return {};
  }
  if (shape.transposed && (8 % shape.axes[2].stride != 0 || shape.axes[2].pad < 0 || shape.axes[1].pad < 0)) return {};
  const std::int64_t step = shape.transposed ? shape.axes[1].stride : 1;
  const std::int64_t bytes = 2 * (in_plane(shape) + (wgrad(shape) ? out_plane(shape) : 0));  // of a plane
  const std::int64_t all_rows = folded_rows(shape, 0).out;
  const std::int64_t most_shared = std::min<std::int64_t>(device.shared_bytes_per_block, kMostShared);
  std::vector<PlaneBands> all;
  for (const std::int64_t channels : {1, 2, 4, 8}) {
    if (channels > 1 && channels / 2 >= shape.out_channels) continue;
    for (const std::int64_t images : {1, 2, 4, 8, 16}) {
      if (images > 1 && (images / 2 >= shape.batch || channels * images * bytes > kMostStage)) continue;
      if (channels * images * bytes < kLeastStage && images < 16 && images < shape.batch) continue;
      for (const std::int64_t bands : {1, 2, 4, 8}) {
        const std::int64_t rows = round_up(ceil_div(all_rows, bands), step);
        if (bands > 1 && (rows < 7 || ceil_div(all_rows, rows) != bands)) continue;
        const PlaneBands design{channels, images, rows};
        const Counts counts = design.counts(shape);
        if (rows > 9999 || counts.registers > 232 || counts.products > 200) continue;
        // Most blocks of a group have work.
        if (bands > 1 && counts.blocks * 4 < counts.groups * 16 * 3) continue;
        if (design.blocks(shape, device).shared_bytes <= most_shared) all.push_back(design);
      }
    }
  }
  return all;
}

Blocks PlaneBands::blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
  const Counts counts = this->counts(shape);
  Blocks blocks;
  const DepthwiseAxis &h = counts.h, &w = shape.axes[2];
  const std::int64_t blocks_w = counts.folded ? 1 : ceil_div(w.out, 8), bands = ceil_div(h.out, rows);
  blocks.channel_warps = std::clamp<std::int64_t>(kMostWarps / channels, 1, counts.groups);
  // As evenly as the groups allow.
  blocks.channel_warps = even_shares(counts.groups, blocks.channel_warps);
  blocks.threads = 32 * channels * blocks.channel_warps;
  const std::int64_t band_in = shape.transposed ? rows / h.stride : rows * h.stride;
  const std::int64_t block_in = shape.transposed ? 8 / w.stride : 8 * w.stride;
  blocks.pitch = pitch_of(2 * channels * in_plane(shape), 2 * band_in * (counts.folded ? 8 * w.stride : w.in),
                          2 * block_in, blocks_w, bands);
  blocks.out_pitch =
      pitch_of(2 * channels * out_plane(shape), 2 * rows * (counts.folded ? 8 : w.out), 16, blocks_w, bands);
  const std::int64_t stage = images * (blocks.pitch + (wgrad(shape) ? blocks.out_pitch : 0));
  const std::int64_t staged = wgrad(shape) ? 0 : 2 * images * blocks.out_pitch;  // one is written, one stored
  const std::int64_t sums =
      wgrad(shape) ? blocks.threads / 32 * (16 * ceil_div(counts.halves, 2) * 9 + plane_taps(shape)) * 4 : 0;
  const std::int64_t guards = 3 * round_up(2 * (8 * counts.halves + 16), 16);  // around what windows read
  const std::int64_t registers = round_up(std::clamp<std::int64_t>(counts.registers, 40, 232), 8);
  const auto per_sm = [&](std::int64_t shared) {
    return std::min(
        {kRegistersPerSm / (registers * blocks.threads), 2048 / blocks.threads, kSharedPerSm / (shared + 1024)});
  };
  // Two stages of what comes next, where that takes no block's place.
  blocks.stages = per_sm(3 * stage + staged) >= per_sm(2 * stage + staged) ? 3 : 2;
  blocks.shared_bytes = std::max(blocks.stages * stage + staged + guards, sums);
  blocks.blocks_per_sm = std::max<std::int64_t>(1, per_sm(blocks.shared_bytes));

  const std::int64_t units = ceil_div(shape.batch, images);
  const std::int64_t channel_groups = ceil_div(shape.out_channels, channels);
  const std::int64_t at_once = sms_of(device) * blocks.blocks_per_sm;
  double least = 0;
  for (std::int64_t fills = 1; fills <= 6; ++fills) {
    const std::int64_t wanted = std::clamp<std::int64_t>(fills * at_once / channel_groups, 1, units);
    const std::int64_t share = ceil_div(units, wanted);
    const std::int64_t splits = ceil_div(units, share);
    const std::int64_t waves = ceil_div(splits * channel_groups, at_once);
    const double time = static_cast<double>(waves) * (static_cast<double>(share) + 1);  // one to begin with
    if (fills > 1 && time >= least) continue;
    least = time;
    blocks.shares = splits;
  }
  blocks.splits = blocks.shares * (wgrad(shape) ? blocks.channel_warps : 1);
  blocks.grid = channel_groups * blocks.shares;
  blocks.balance = balance_of(units, blocks.shares);
  return blocks;
}

// A tile is a step of a warp's 16 blocks.
double PlaneBands::seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
  const Counts counts = this->counts(shape);
  const Blocks on = blocks(shape, device);
  const std::int64_t units = ceil_div(shape.batch, images);
  Work work;
  const double steps = static_cast<double>(counts.groups * counts.steps * units) *
                       static_cast<double>(round_up(shape.out_channels, channels));
  work.threads_tiles = 32 * steps;
  work.products = static_cast<double>(counts.products);
  work.loads =
      static_cast<double>(counts.step_in * (wgrad(shape) ? 4 * ceil_div(counts.halves, 2) : 2 * counts.halves));
  if (shape.axes[2].in % 2 != 0) work.loads *= 2;
  if (wgrad(shape)) work.loads += 4;
  if (!wgrad(shape)) work.stores = static_cast<double>(counts.step_out * (shape.axes[2].out % 2 == 0 ? 2 : 4));
  // 16 bytes copied, of a thread for each step, unless the copy engine does it.
  const auto whole = [&](std::int64_t plane, std::int64_t of) {
    return of * plane * 2 % 16 == 0 && channels * plane * 2 % 16 == 0 && of % channels == 0;
  };
  const bool bulk_in = device.architecture >= 90 && whole(in_plane(shape), shape.in_channels);
  const bool bulk_out = device.architecture >= 90 && whole(out_plane(shape), shape.out_channels);
  const std::int64_t copied = (bulk_in ? 0 : in_plane(shape)) + (bulk_out ? 0 : out_plane(shape));
  work.converts = 2 * static_cast<double>(shape.batch * shape.out_channels * copied) / 16 / work.threads_tiles;
  work.weights = static_cast<double>(counts.h.taps * counts.halves * 4 * on.shares) /
                 static_cast<double>(units * ceil_div(counts.groups, on.channel_warps) * counts.steps);
  work.shared = work.loads + work.stores + 4 * work.converts;
  return fitted_seconds(shape, work, kCosts.of(shape), on, device);
}

DepthwiseKernel PlaneBands::kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
  const Counts counts = this->counts(shape);
  const Blocks on = blocks(shape, device);
  DepthwiseKernel kernel(wgrad(shape) ? "depthwise_nchw_bands_wgrad.cu" : "depthwise_nchw_bands.cu", shape, on);
  kernel.constants.set("BAND_ROWS", rows).set("CHANNELS", channels).set("IMAGES", images);
  kernel.constants.set("CHANNEL_WARPS", on.channel_warps).set("STAGES", on.stages).set("SPLITS", on.shares);
  kernel.constants.set("WINDOW", counts.window).set("HALVES", counts.halves).set("FOLDED", counts.folded);
  kernel.constants.set("IN_PITCH", on.pitch).set("OUT_PITCH", on.out_pitch);
  kernel.taps_first = false;
  return kernel;
}

}  // namespace

extern constinit const DepthwiseFamily plane_bands_family = family_of<PlaneBands>();

}  // namespace convoy::cuda
