// How a design of a depthwise problem is spread over a device.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/device.h"
#include "engines/cuda/depthwise/design.h"
#include "engines/cuda/depthwise/tile_axis.h"

namespace convoy::cuda {

// Threads and blocks that a design runs with.
struct DepthwiseBlocks {
  std::int64_t channel_threads = 32;  // neighbouring threads on neighbouring channels (patch, rolling)
  std::int64_t threads = 256;
  std::int64_t blocks_per_sm = 1;
  std::int64_t planes = 1;       // of a block (planes)
  std::int64_t strip_tiles = 1;  // rows of tiles of a block (planes)
  std::int64_t prefetch = 1;     // rows of input loaded ahead (patch)
  std::int64_t splits = 1;       // wgrad: shares of the pixels that are added last
  std::int64_t grid = 1;
  std::int64_t shared_bytes = 0;  // dynamic
  double balance = 1;             // share of their time that blocks have work, where they walk over several units
  std::int64_t stages = 1;        // inputs in shared memory at once (planes)
  std::int64_t images = 1;        // of a block at once (planes' wgrad, mma)
  // See the tensor cores' kernels.
  std::int64_t tile_h = 1, block_h = 1, block_w = 1, channel_warps = 1, pitch = 16;
  std::int64_t window = 0, halves = 2, out_pitch = 16, shares = 1;
  bool folded = false;
  // See signal_rows.cuh.
  std::int64_t segments = 1, image_splits = 1, tap_group = 1, round = 1;
  bool sparse = false;
};
DepthwiseBlocks blocks_of(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                          int target_sms);

// Registers that a thread's arrays take at once (patch, rolling, planes), `prefetch` rows being loaded ahead.
std::int64_t registers_wanted(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t prefetch);

// Bytes of shared memory that a block of planes needs for a single row of tiles.
std::int64_t least_plane_bytes(const DepthwiseShape& shape, const DepthwiseDesign& design);

// The tensor cores' part of blocks_of (mma_blocks.cc).
void place_mma(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t sms, DepthwiseBlocks& blocks);

// plane_bands' part (bands_blocks.cc), what can run, and what its cost follows from.
void place_plane_bands(const DepthwiseShape& shape, const DepthwiseDesign& design, std::int64_t sms,
                       DepthwiseBlocks& blocks);
void place_pixel_bands(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                       std::int64_t sms, DepthwiseBlocks& blocks);  // pixel_bands_blocks.cc
std::vector<DepthwiseDesign> plane_bands_designs(const DepthwiseShape& shape);
struct BandCounts {
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
BandCounts band_counts(const DepthwiseShape& shape, const DepthwiseDesign& design);

// The part of the kernels for long filters of signals (signal_blocks.cc, kernels/signal_rows.cuh).
void place_signal(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                  std::int64_t sms, DepthwiseBlocks& blocks);
const DepthwiseAxis& signal_axis(const DepthwiseShape& shape);  // the axis that isn't trivial
struct SignalRows {
  std::int64_t in_positions = 1;  // that a block copies of a channel
  std::int64_t out_positions = 1;
  std::int64_t segments = 1;     // blocks beside one another along the signal
  std::int64_t item_phases = 1;  // rows of tiles in a plane
  std::int64_t group_taps = 1;   // taps of a block
  std::int64_t stage_bytes = 0, weight_bytes = 0;
  bool sparse = false;
};
bool signal_channels_last(const DepthwiseShape& shape);  // threads along channels
SignalRows signal_rows(const DepthwiseShape& shape, const DepthwiseDesign& design);

struct Tiling {
  TileAxis h, w;
};
inline Tiling tiling_of(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  return {{shape.axes[1], design.rows, shape.transposed}, {shape.axes[2], design.columns, shape.transposed}};
}
inline std::int64_t plane_taps(const DepthwiseShape& shape) { return shape.axes[1].taps * shape.axes[2].taps; }
inline bool wgrad(const DepthwiseShape& shape) { return shape.pass == Pass::wgrad; }
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// The mean of shares beside the largest, when `units` are spread over `shares`.
inline double balance_of(std::int64_t units, std::int64_t shares) {
  return static_cast<double>(units) / static_cast<double>(shares * ceil_div(units, shares));
}

inline constexpr std::int64_t kRegistersPerSm = 65536;

}  // namespace convoy::cuda
