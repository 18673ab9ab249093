// Winograd kernels: what the units of each instruction set offer, and the plain data they read.
//
// An output tile of m x m (1D: 1 x m) positions is  A^T [ sum_c U_c * V_c ] A  with V = B^T d B of the (m+2)^2 inputs
// it reads and U = G g G^T of the 3x3 filter (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016;
// the matrices are in transforms.h). The products are one matrix product a point of the tile:
//   M[point][tile][k] = sum_c V[point][tile][c] * U[point][c][k]
// Memory, in floats, which are elements, f32 or f64; `lanes` is the vector length:
//   V  [point][tile / rows][c / lanes][tile % rows][c % lanes]: a row tile's broadcasts lie at constant distances
//   U  [panel][point][c][k of the panel], a panel being two vectors of k, or one at the end
//   M  [point][tile][k of the chunk]
// and behind U, for what is computed directly:
//   W  [k / lanes][c][tap][k % lanes], and a float for each k / lanes: 1 where these filters always are
//
// The transforms mix the pixels of a tile: an infinity reaches all its outputs, a large value all their roundings. So
// an output is computed directly, skipping padding, where its window's values are small beside its tile's (kReach,
// kLargest) or its filter's taps are small beside each other (kReach, kLargestWeight). Below these limits nothing
// overflows: the transforms and the sum of 2^16 channels multiply |x| * |w| by less than 2^28. Those of f64 are as far
// below its own.
#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"
#include "engines/cpu/common/geometry.h"

namespace convoy::cpu {

constexpr double kReach = 1024;  // of a tile's largest |value| over a window's; values below 1 count as 1
template <class Real>
constexpr Real kLargest = sizeof(Real) == 4 ? 0x1p64 : 0x1p512;  // |value| in a tile
template <class Real>
constexpr Real kLargestWeight = sizeof(Real) == 4 ? 0x1p32 : 0x1p256;

// Where the tiles of a group of channels lie. Tiles count over (batch, depth, tile row, tile column), columns fastest.
struct WinogradTiles {
  std::int64_t depth;    // of out
  std::int64_t rows;     // of tiles
  std::int64_t columns;  // of tiles
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t source_size[3];
  std::int64_t delta[3];  // output (d, h, w) reads source (d + delta[0] + t, h + delta[1] + r, w + delta[2] + s)
};

template <class Real>
struct WinogradInputOf {
  const WinogradTiles* tiles;
  const Real* source;  // first channel of the group
  ActivationView view;
  std::int64_t channels;  // of the group
  std::int64_t depth_taps;
  std::int64_t first_tile;  // of the block; V counts from it
  std::int64_t begin;       // tiles to transform, counted from first_tile
  std::int64_t end;
  std::int64_t row_tile;
  Real* v;
  std::int64_t v_group;  // floats from a row tile to the next
  std::int64_t v_point;
  bool* direct;  // of the block's tiles: written
};

template <class Real>
struct WinogradOutputOf {
  const WinogradTiles* tiles;
  const EpilogueArgsOf<Real>* epilogue;
  Real* out;  // first channel of the group
  const Real* z;
  ActivationView view;
  std::int64_t channel;       // of out, of the group's first channel
  std::int64_t channels;      // of the group
  std::int64_t first_vector;  // of the chunk, in the group
  std::int64_t vectors;
  std::int64_t first_tile;
  std::int64_t count;  // tiles of the block
  const Real* m;
  std::int64_t m_tile;  // floats from a tile to the next
  std::int64_t m_point;
  const WinogradInputOf<Real>* input;  // of the block
  const bool* direct;                  // of the block's tiles
  const Real* direct_vectors;          // of the group's
  const Real* weights;                 // W of the group
  std::int64_t reduction;
};

// One panel of one point: m[tile][0, panel_vectors * lanes) for all tiles of the block.
template <class Real>
struct WinogradProductOf {
  const Real* v;
  std::int64_t v_group;
  std::int64_t row_tile;
  std::int64_t tiles;
  const Real* u;
  const Real* next_u;      // of the product that follows
  std::int64_t reduction;  // c
  int panel_vectors;       // 1 or 2
  Real* m;
  std::int64_t m_tile;
};

// A vector of filters: U[point] of each c = (G g G^T) of W's taps, 1D: G g.
template <class Real>
struct WinogradFiltersOf {
  const Real* w;  // [c][tap][lane]
  std::int64_t channels;
  Real* u;             // of point 0, c 0
  std::int64_t width;  // floats between c
  std::int64_t u_point;
  Real* largest;  // [tap][lane]: grows to each tap's largest |value|; infinity for what is above kLargestWeight or none
};

// What each takes is of the kernels' elements: a WinogradProductOf, WinogradInputOf, WinogradOutputOf or
// WinogradFiltersOf.
using WinogradRun = void (*)(const void*);

struct WinogradKernels {
  int lanes;
  int element_bytes;
  int max_rows;  // of a register tile
  WinogradRun product;
  // Indexed by [1D, 2D].
  WinogradRun input_2[2];  // m = 2
  WinogradRun input_4[2];  // m = 4
  WinogradRun output_2[2];
  WinogradRun output_4[2];
  WinogradRun filters_2[2];
  WinogradRun filters_4[2];
};

namespace avx2 {
extern const WinogradKernels winograd_kernels;
}
namespace avx512 {
extern const WinogradKernels winograd_kernels;
}
namespace avx2_f64 {
extern const WinogradKernels winograd_kernels;
}
namespace avx512_f64 {
extern const WinogradKernels winograd_kernels;
}

}  // namespace convoy::cpu
