#include <algorithm>
#include <bit>

#include "engines/cuda/depthwise/blocks.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 227 * 1024;  // of a processor
constexpr std::int64_t kMostWarps = 8;             // of a block
constexpr std::int64_t kLeastStage = 4 * 1024;     // bytes: smaller ones wait for memory and for one another
constexpr std::int64_t kMostStage = 40 * 1024;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

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

}  // namespace

// plane_bands.cuh's arithmetic, and that of the two kernels.
BandCounts band_counts(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  const DepthwiseAxis& w = shape.axes[2];
  const std::int64_t reach_w = (w.taps - 1) * w.dilation;
  BandCounts counts;
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
  const std::int64_t bands = ceil_div(h.out, design.rows);
  counts.step_in = shape.transposed ? 1 : h.stride;
  counts.step_out = shape.transposed ? h.stride : 1;
  counts.open = shape.transposed ? std::max(reach_h + 1, h.stride) : reach_h / h.stride + 1;
  if (wgrad(shape)) {
    counts.steps = bands > 1 ? design.rows + counts.open - 1
                             : std::min(h.out + counts.open - 1, (h.in - 1 + h.pad) / h.stride + 1);
  } else if (shape.transposed) {
    counts.steps = ceil_div(design.rows + reach_h, h.stride);
  } else {
    counts.steps =
        design.rows + (bands > 1 ? counts.open - 1 : std::clamp<std::int64_t>(reach_h - h.pad, 0, reach_h) / h.stride);
  }
  counts.blocks = design.vector * bands * (counts.folded ? 1 : ceil_div(w.out, 8));
  counts.groups = ceil_div(counts.blocks, 16);
  counts.products = h.taps * ceil_div(counts.halves, 2);
  const std::int64_t columns = ceil_div(counts.halves, 2);
  counts.registers = wgrad(shape) ? h.taps * columns * 4 + counts.open * 2 + 2 * (counts.step_in * columns * 4 + 4) + 60
                                  : counts.open * 4 + h.taps * counts.halves + 4 * counts.step_in * counts.halves + 50;
  return counts;
}

std::vector<DepthwiseDesign> plane_bands_designs(const DepthwiseShape& shape) {
  if (shape.element_bytes() != 2 || shape.volumetric() || shape.multiplier != 1 || shape.fan_in != 1 ||
      !shape.in_order || !shape.filters_packed || shape.alignment % 16 != 0) {
    return {};
  }
  if (shape.transposed && (8 % shape.axes[2].stride != 0 || shape.axes[2].pad < 0 || shape.axes[1].pad < 0)) return {};
  const std::int64_t step = shape.transposed ? shape.axes[1].stride : 1;
  const std::int64_t bytes = 2 * (in_plane(shape) + (wgrad(shape) ? out_plane(shape) : 0));  // of a plane
  const std::int64_t all_rows = folded_rows(shape, 0).out;
  std::vector<DepthwiseDesign> designs;
  for (const std::int64_t channels : {1, 2, 4, 8}) {
    if (channels > 1 && channels / 2 >= shape.out_channels) continue;
    for (const std::int64_t images : {1, 2, 4, 8, 16}) {
      if (images > 1 && (images / 2 >= shape.batch || channels * images * bytes > kMostStage)) continue;
      if (channels * images * bytes < kLeastStage && images < 16 && images < shape.batch) continue;
      for (const std::int64_t bands : {1, 2, 4, 8}) {
        const std::int64_t rows = round_up(ceil_div(all_rows, bands), step);
        if (bands > 1 && (rows < 7 || ceil_div(all_rows, rows) != bands)) continue;
        const DepthwiseDesign design{DepthwiseKernel::plane_bands, rows, channels, images};
        const BandCounts counts = band_counts(shape, design);
        if (rows > 9999 || counts.registers > 232 || counts.products > 200) continue;
        // Most blocks of a group have work.
        if (bands > 1 && counts.blocks * 4 < counts.groups * 16 * 3) continue;
        designs.push_back(design);
      }
    }
  }
  return designs;
}

void place_plane_bands(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t sms,
                       DepthwiseBlocks& blocks) {
  const BandCounts counts = band_counts(shape, design);
  const DepthwiseAxis &h = counts.h, &w = shape.axes[2];
  const std::int64_t channels = design.columns, images = design.vector;
  blocks.folded = counts.folded;
  const std::int64_t blocks_w = counts.folded ? 1 : ceil_div(w.out, 8), bands = ceil_div(h.out, design.rows);
  blocks.window = counts.window;
  blocks.halves = counts.halves;
  blocks.channel_warps = std::clamp<std::int64_t>(kMostWarps / channels, 1, counts.groups);
  // As evenly as the groups allow.
  blocks.channel_warps = ceil_div(counts.groups, ceil_div(counts.groups, blocks.channel_warps));
  blocks.threads = 32 * channels * blocks.channel_warps;
  const std::int64_t band_in = shape.transposed ? design.rows / h.stride : design.rows * h.stride;
  const std::int64_t block_in = shape.transposed ? 8 / w.stride : 8 * w.stride;
  blocks.pitch = pitch_of(2 * channels * in_plane(shape), 2 * band_in * (counts.folded ? 8 * w.stride : w.in),
                          2 * block_in, blocks_w, bands);
  blocks.out_pitch =
      pitch_of(2 * channels * out_plane(shape), 2 * design.rows * (counts.folded ? 8 : w.out), 16, blocks_w, bands);
  const std::int64_t stage = images * (blocks.pitch + (wgrad(shape) ? blocks.out_pitch : 0));
  const std::int64_t staged = wgrad(shape) ? 0 : 2 * images * blocks.out_pitch;  // one is written, one stored
  const std::int64_t sums =
      wgrad(shape) ? blocks.threads / 32 * (16 * ceil_div(counts.halves, 2) * 9 + plane_taps(shape)) * 4 : 0;
  const std::int64_t guards = 3 * round_up(2 * (8 * counts.halves + 16), 16);  // around what windows read
  const std::int64_t registers = round_up(std::clamp<std::int64_t>(counts.registers, 40, 232), 8);
  const auto per_sm = [&](std::int64_t shared) {
    return std::min(
        {kRegistersPerSm / (registers * blocks.threads), 2048 / blocks.threads, kSharedBytes / (shared + 1024)});
  };
  // Two stages of what comes next, where that takes no block's place.
  blocks.stages = per_sm(3 * stage + staged) >= per_sm(2 * stage + staged) ? 3 : 2;
  blocks.shared_bytes = std::max(blocks.stages * stage + staged + guards, sums);
  blocks.blocks_per_sm = std::max<std::int64_t>(1, per_sm(blocks.shared_bytes));

  const std::int64_t units = ceil_div(shape.batch, images);
  const std::int64_t channel_groups = ceil_div(shape.out_channels, channels);
  const std::int64_t at_once = sms * blocks.blocks_per_sm;
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
}

}  // namespace convoy::cuda
