// One spatial axis of a depthwise convolution in tiles, all known at compile time.
//
// Outputs o and inputs i of an axis meet through tap s where
//   gather (fprop; wgrad with outputs in y):   i = o*stride + s*dilation - pad
//   scatter turned round (dgrad):       i*stride = o - s*dilation + pad
// A tile is `tile` neighbouring outputs, `span` inputs; inside a tile they have the local numbers a and j. For dgrad
// tiles start where o + pad is a multiple of the stride, and are a multiple of it long, so which a, j and s meet
// doesn't depend on the tile.
#pragma once

#define CONVOY_CONSTEXPR __host__ __device__ static constexpr

CONVOY_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
CONVOY_CONSTEXPR int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
CONVOY_CONSTEXPR int max_of(int a, int b) { return a > b ? a : b; }
CONVOY_CONSTEXPR int min_of(int a, int b) { return a < b ? a : b; }

template <bool small>
struct IndexOf {
  using type = unsigned;
};
template <>
struct IndexOf<false> {
  using type = long long;
};
template <bool small>
using Index = typename IndexOf<small>::type;

template <int in, int out, int taps, int stride, int dilation, int pad, int tile, bool transposed>
struct Axis {
  CONVOY_CONSTEXPR int start() { return transposed ? -(pad % stride) : 0; }  // first output of tile 0
  CONVOY_CONSTEXPR int tiles() { return ceil_div(out - start(), tile); }
  // Taps further apart than a tile is wide share no inputs: then only the inputs that are met get local numbers.
  CONVOY_CONSTEXPR bool sparse() { return !transposed && dilation > (tile - 1) * stride; }
  CONVOY_CONSTEXPR int span() {
    if (sparse()) return tile * taps;
    return transposed ? (tile - 1) / stride + (taps - 1) * dilation / stride + 1
                      : (tile - 1) * stride + (taps - 1) * dilation + 1;
  }
  CONVOY_CONSTEXPR int step() { return transposed ? tile / stride : tile * stride; }  // inputs from tile to tile
  CONVOY_CONSTEXPR int base() {                                                       // first input of tile 0
    return transposed ? (pad - pad % stride) / stride - (taps - 1) * dilation / stride : -pad;
  }
  // Where local input j lies, from the tile's first.
  CONVOY_CONSTEXPR int position(int j) { return sparse() ? j / tile * dilation + j % tile * stride : j; }
  // The tap through which local output a and local input j meet, or -1.
  CONVOY_CONSTEXPR int tap(int a, int j) {
    if (sparse()) return j % tile == a ? j / tile : -1;
    const int distance = transposed ? a - (j - (taps - 1) * dilation / stride) * stride : j - a * stride;
    if (distance < 0 || distance % dilation != 0) return -1;
    return distance / dilation < taps ? distance / dilation : -1;
  }
  CONVOY_CONSTEXPR bool needed(int j) {
    for (int a = 0; a < tile; ++a) {
      if (tap(a, j) >= 0) return true;
    }
    return false;
  }
  // The tiles in which local input j lies in the tensor: first_tile(j) to last_tile(j).
  CONVOY_CONSTEXPR int first_tile(int j) { return max_of(0, -floor_div(base() + position(j), step())); }
  CONVOY_CONSTEXPR int last_tile(int j) {
    return min_of(tiles() - 1, floor_div(in - 1 - base() - position(j), step()));
  }
  CONVOY_CONSTEXPR bool inside(int j, int t) {
    const int first = first_tile(j);
    const int last = last_tile(j);
    return (first <= 0 || t >= first) && (last >= tiles() - 1 || t <= last);
  }
  CONVOY_CONSTEXPR bool ever_inside(int j) { return first_tile(j) <= last_tile(j); }
  // The tiles in which local output a lies in the tensor.
  CONVOY_CONSTEXPR bool stored(int a, int t) {
    const int first = start() + a < 0 ? 1 : 0;
    const int last = floor_div(out - 1 - start() - a, tile);
    return (first <= 0 || t >= first) && (last >= tiles() - 1 || t <= last);
  }
};
