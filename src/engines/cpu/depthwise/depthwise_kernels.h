// Depthwise kernels: what the units of each instruction set offer, and the plain data they read.
//
// fprop and dgrad are both sums over the taps of a dim: position `out_step*j + out_offset` of out reads positions
//   src_step*j + delta + t*delta_step,  t in [0, taps), weight tap first_tap + t*tap_step
// of the source (x for fprop, y for dgrad), where the source is zero outside. fprop has one such phase a dim, with
// src_step the stride; dgrad has one for each residue of the position by the stride, with src_step 1 (a strided
// transposed convolution is that many interleaved convolutions, each with its own subset of the taps).
#pragma once

#include <cstdint>

#include "convoy/data_type.h"
#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

struct DepthwisePhase {
  std::int64_t out_offset;
  std::int64_t out_step;
  std::int64_t count;  // positions of out in the phase
  std::int64_t src_step;
  std::int64_t src_size;
  std::int64_t first_tap;
  std::int64_t tap_step;  // may be negative: delta_step is not
  std::int64_t taps;      // may be 0
  std::int64_t delta;
  std::int64_t delta_step;
  std::int64_t inner_begin;  // [inner_begin, inner_end): every tap is inside the source
  std::int64_t inner_end;
};

// How a vector of source values is read.
enum class DepthwiseAccess : std::int32_t {
  plain,   // a source channel an output channel
  expand,  // fprop with a multiplier m: lane l of channel k reads channel (k+l)/m
  gather,  // dgrad with a multiplier m: m source channels an output channel, each at its own offset
};

// One row of out for consecutive vectors of channels; channels are innermost in memory.
template <class Real>
struct DepthwiseRowOf {
  const DepthwisePhase* width;  // all phases of the width
  std::int64_t width_phases;
  const EpilogueArgsOf<Real>* epilogue;
  DepthwiseAccess access;
  const Real* src;      // first valid tap of depth and height, column 0, first vector
  const Real* weights;  // that tap, width tap 0, first vector: [vector][source channel][depth][height][width][lanes]
  Real* out;            // column 0, first vector
  const Real* z;        // as out; not read where gamma is 0
  std::int64_t depth_taps;
  std::int64_t height_taps;
  std::int64_t src_depth;  // elements from a valid tap to the next
  std::int64_t src_height;
  std::int64_t src_column;  // elements from a column to the next
  std::int64_t src_vector;  // elements from a vector of channels to the next; plain only
  std::int64_t out_vector;
  std::int64_t out_column;  // elements from a column to the next, of whatever phase
  std::int64_t weight_depth;
  std::int64_t weight_height;
  std::int64_t weight_width;
  std::int64_t weight_source;  // gather: from a source channel of an output channel to the next
  std::int64_t weight_vector;
  std::int64_t channel;   // of out, of the first vector
  std::int64_t channels;  // of out that exist from `channel` on; may be fewer than vectors * lanes
  std::int64_t vectors;
  bool zero_padding;  // store zeros to the lanes that are no channel
  std::int64_t multiplier;
  const std::int32_t* expand_lanes;    // expand: [vector][lanes] source lane
  const std::int64_t* gather_offsets;  // gather: [vector][multiplier][lanes] offset from src
};

template <class Real>
struct DepthwisePlaneOf {
  const Real* src;  // row 0, column 0 of the source plane
  std::int64_t src_row;
  std::int64_t height;
  std::int64_t width;
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;
  std::int64_t row_step;
  std::int64_t column_step;
  std::int64_t residue_rows;
  std::int64_t pitch;
  Real* dst;
};

// A plane of one channel with the width innermost (NCHW). The source rows are first copied, zero-padded and split by
// residue of row and column by the stride, into a buffer in which every tap is a constant distance away.
template <class Real>
struct DepthwiseKernels {
  int lanes;
  void (*channels_row)(const DepthwiseRowOf<Real>& row);
  // Columns of `channels` neighbouring halves (f16 or bf16) as f32, whole vectors: what is no channel becomes 0. And
  // back, channels only. Steps are elements from a column to the next. Null in f64.
  void (*widen_columns)(DataType type, const void* from, std::int64_t from_step, std::int64_t columns,
                        std::int64_t channels, Real* to, std::int64_t to_step);
  void (*narrow_columns)(DataType type, const Real* from, std::int64_t from_step, std::int64_t columns,
                         std::int64_t channels, void* to, std::int64_t to_step);
  // flat[i] = sum over t of weights[t] * buffer[offsets[t] + i], i in [0, count); count is a multiple of 4 * lanes.
  void (*plane_sum)(const Real* buffer, const std::int64_t* offsets, const Real* weights, std::int64_t taps, Real* flat,
                    std::int64_t count);
  // Row i of a plane of `rows` rows is source row first_row + i, columns [first_column, first_column + columns); zero
  // outside height x width. Position (i, q) goes to
  //   dst[((i % row_step * column_step + q % column_step) * residue_rows + i / row_step) * pitch + q / column_step]
  void (*plane_copy)(const DepthwisePlaneOf<Real>& plane);
  // out[r][i] = the epilogue of sums[r * pitch + i], r in [0, rows), i in [0, columns), all of one channel; rows of out
  // (and z) are out_row apart.
  void (*plane_finish)(const Real* sums, std::int64_t pitch, std::int64_t rows, std::int64_t columns,
                       const EpilogueArgsOf<Real>& epilogue, std::int64_t channel, Real* out, const Real* z,
                       std::int64_t out_row);
};

namespace avx2 {
extern const DepthwiseKernels<float> depthwise_kernels;
}
namespace avx512 {
extern const DepthwiseKernels<float> depthwise_kernels;
}
namespace avx2_f64 {
extern const DepthwiseKernels<double> depthwise_kernels;
}
namespace avx512_f64 {
extern const DepthwiseKernels<double> depthwise_kernels;
}

}  // namespace convoy::cpu
