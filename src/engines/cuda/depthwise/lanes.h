// What the families on multiply-adds share (patch, rolling, planes): a thread has a tile of outputs in registers.
#pragma once

#include <vector>

#include "engines/cuda/depthwise/prediction.h"
#include "engines/cuda/depthwise/tile_axis.h"

namespace convoy::cuda {

// Packed NCHW, aligned: what `planes` takes, and the others are slower for.
bool planar(const DepthwiseShape& shape);

// Signals with one filter a channel, which `signal` takes, and where no family on multiply-adds was ever faster than
// it, whatever is predicted (signal.cc).
bool signal_fits(const DepthwiseShape& shape);
bool signal_is_fastest(const DepthwiseShape& shape);

// The tiles that are tried.
struct LaneTile {
  std::int64_t rows, columns;
};
std::vector<LaneTile> lane_tiles(const DepthwiseShape& shape);

// Whether a tile of `vector` channels is whole strides, compiles in reasonable time and leaves registers to hide
// latency with.
bool runs_well(const DepthwiseShape& shape, const LaneTile& tile, std::int64_t vector, std::int64_t registers);

// Blocks whose neighbouring threads are on neighbouring channels (patch, rolling).
struct ChannelBlocks : DepthwiseBlocks {
  std::int64_t channel_threads = 32;
};
// Of about `threads` threads with `registers` registers and `vector` channels each; `tiles`: of an image's channel.
ChannelBlocks blocks_along_channels(const DepthwiseShape& shape, const CudaDevice& device, std::int64_t threads,
                                    std::int64_t registers, std::int64_t vector, std::int64_t tiles);
// How many such blocks a processor runs at once.
std::int64_t blocks_by_registers(std::int64_t registers, std::int64_t threads);

// Of a thread's tile, for a channel.
struct LaneWork {
  double products, inputs, outputs;
  double tiles;  // of an image's channel
};
LaneWork lane_work(const DepthwiseShape& shape, const LaneTile& tile);
Work work_of(const DepthwiseShape& shape, const LaneWork& lane, std::int64_t vector);

}  // namespace convoy::cuda
