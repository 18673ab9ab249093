// The register tiles of cpu.wgrad, of f32 or f64 elements: what is called floats here, x, y and sums. Plain data only:
// these structs are shared by units of every instruction set.
#pragma once

#include <cstdint>

namespace convoy::cpu {

// Positions in three nested loops, and what is between two of them in floats. A position of y is a whole panel.
struct WgradPositions {
  std::int64_t counts[3];
  std::int64_t x_steps[3];
  std::int64_t y_steps[3];
};

// sums[r][f] = sum over the positions of x[r] * y[f], added to what is there with `add`. x: of each channel where the
// first position is; y: a panel. A row of sums is row_floats after the one before.
using WgradTile = void (*)(const void* const* x, const void* y, const WgradPositions& positions, void* sums,
                           std::int64_t row_floats, bool add);

constexpr int kMostWgradRows = 12;

// Groups of as many filters as channels, 1, 2 or 4, where those of x and of y lie side by side: lanes are filters.
// sums[tap][c][f] += sum over the positions of x[tap][channel c of f's group] * y[f], of `filters`, at most two
// vectors. The next tap's x is x_tap floats further; of a window, that of the next row's taps x_row.
using WgradTaps = void (*)(const void* x, std::int64_t x_row, std::int64_t x_tap, const void* y,
                           const WgradPositions& positions, int filters, void* sums);

constexpr int kMostWgradTaps = 4;  // times the channels of a group

struct WgradKernels {
  int lanes;
  int element_bytes;
  // Tiles with panels of two vectors, and of four, by their rows (channels): tiles[0] has one.
  int two_rows, four_rows;  // the most there are
  const WgradTile* two;
  const WgradTile* four;
  WgradTaps taps[3][kMostWgradTaps];  // groups of 1, 2 and 4; by the number of taps: taps[0][0] has one; null: too many
  WgradTaps window;                   // groups of 1: 3x3 taps at once; null: too few registers
};

namespace avx2 {
extern const WgradKernels wgrad_kernels;
}
namespace avx512 {
extern const WgradKernels wgrad_kernels;
}
namespace avx2_f64 {
extern const WgradKernels wgrad_kernels;
}
namespace avx512_f64 {
extern const WgradKernels wgrad_kernels;
}

}  // namespace convoy::cpu
