// The register-tiled microkernel that cpu.direct and cpu.gemm share, lanes along output channels:
//   acc[p][k] = sum over steps s, r < run:  x[pixel p + steps[s] + r*run_stride] * w[s*run + r][k]
// for P = halves*pixels output positions and V vectors of output channels. Each half is `pixels` positions at a
// constant distance in x, and the two halves lie anywhere: two short rows fill one tile. Plain data only: per-ISA units
// include this.
#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

constexpr int kMaxTilePixels = 14;
constexpr int kMaxTileVectors = 4;

template <class Real>
struct TileArgsOf {
  const Real* x[2];           // position 0 of each half
  std::int64_t x_pixel;       // elements between positions of a half
  const std::int64_t* steps;  // elements
  std::int64_t step_count;
  std::int64_t run;
  std::int64_t run_stride;  // elements
  const Real* w;            // packed [step_count*run][V*lanes]
  const Real* prefetch;     // about as many lines as the sum has elements are fetched from here; or null
  // Accumulators go here, [P][V*lanes], when it is not null. Otherwise the tile is whole and the epilogue is fast, and
  // position p, vector v is finished at out + out_offset[p] + vector_offset[v], z alike.
  Real* tile;
  Real* out;
  const Real* z;
  const std::int64_t* out_offset;
  const std::int64_t* vector_offset;
  const EpilogueArgsOf<Real>* epilogue;
  std::int64_t channel;  // of lane 0, for the bias
};

// The general epilogue of a tile: `positions` of them, those with out_offset < 0 skipped; `channels` valid ones from
// `channel` on. Channel c of position p lies at out + out_offset[p] + (c / block)*block_stride + c % block (block 0:
// c).
template <class Real>
struct TileFinishOf {
  const Real* tile;
  int positions;
  int width;  // V*lanes
  std::int64_t channel;
  std::int64_t channels;
  std::int64_t block;
  std::int64_t block_stride;
  const std::int64_t* out_offset;
  Real* out;
  const Real* z;
  const EpilogueArgsOf<Real>* epilogue;
};

// `args`: a TileArgsOf the kernels' elements.
using TileRun = void (*)(const void* args);

struct TileShape {
  int halves;
  int pixels;  // of a half
  int vectors;
  // 0, or the channels of a group for the grouped kernels: one vector holds lanes/group whole groups of as many input
  // as output channels, and input channel r of a group reaches the group's lanes:
  //   acc[p][k] = sum over steps s, r < group:  x[pixel p + steps[s] + k - k % group + r] * w[s*group + r][k]
  int group;
  TileRun run;
  TileRun run_one_half;  // of the first half alone
};

struct TileKernels {
  int lanes;
  int element_bytes;
  const TileShape*
      shapes;  // for each (halves, pixels) every count of vectors from 1 to its most; then the grouped ones
  int shape_count;
  void (*finish)(const void* args);  // a TileFinishOf the kernels' elements
};

namespace avx2 {
extern const TileKernels tile_kernels;
}
namespace avx512 {
extern const TileKernels tile_kernels;
}
namespace avx2_f64 {
extern const TileKernels tile_kernels;
}
namespace avx512_f64 {
extern const TileKernels tile_kernels;
}

}  // namespace convoy::cpu
