// The banded kernels' view of a problem: kernels/bands.cuh's arithmetic on the host.
#pragma once

#include <algorithm>

#include "engines/cuda/depthwise/blocks.h"

namespace convoy::cuda {

// Signals lie along W, and where H is nothing the images are its rows.
DepthwiseShape bands_shape(const DepthwiseShape& shape);

inline std::int64_t bands_unroll(const DepthwiseDesign& design) { return design.unroll; }
inline std::int64_t bands_channels(const DepthwiseDesign& design) { return design.columns; }

struct Bands {
  std::int64_t rows_in = 1, rows_out = 1;  // of a substep
  std::int64_t ahead = 0, open = 1;
  std::int64_t units = 1, band_units = 1, bands = 1;
  std::int64_t blocks_n = 1, step_chunks = 1, window = 8, window_chunks = 1;
  std::int64_t tiles_w = 1, blocks_w = 1, row_chunks = 1;
  std::int64_t instances = 1, groups = 1, places = 1;
};
// Of bands_shape's.
Bands bands_of(const DepthwiseShape& shape, const DepthwiseDesign& design);
std::int64_t bands_registers(const DepthwiseShape& shape, const DepthwiseDesign& design);

// predicted_seconds' part for these (pixel_bands_prediction.cc), of any shape.
double bands_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const DepthwiseBlocks& blocks,
                     double sms);

}  // namespace convoy::cuda
