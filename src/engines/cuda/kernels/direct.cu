// fprop of few channels by multiply-adds in f32, on planes: the pixels of a row lie side by side. A thread computes
// four columns of ROWS rows, DILATION_H apart, of CHANNELS channels of out, and meets each row of x that they need
// once. The filters lie in shared memory, a row of taps after another, so that a thread has the weights of a row of
// taps in a few loads; all threads read the same ones.
//
// VECTOR 4: the four columns are neighbours and move as one; all rows are wholes of four. VECTOR 1: they lie groups_w
// apart, so that a warp's loads are side by side, wherever rows begin.
#include "axis.cuh"
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

struct Sizes {
  long long x_strides[4], y_strides[4], w_strides[5];  // N, C, D, H; K, C, D, H, W
  int in_channels, out_channels;
  int in[3], out[3];  // D, H, W
  int groups_h, groups_w, blocks_n;
  unsigned threads;  // with something to compute, of a block of channels
};

namespace {

constexpr int columns = 4;
constexpr int row_weights = (TAPS_W * CHANNELS + 3) / 4 * 4;  // of a row of taps, zeros behind
constexpr int row_products = TAPS_W * columns * CHANNELS;
constexpr int rows_at_once = ROWS > 1 || (TAPS_H * row_products) <= 400 ? ROWS + TAPS_H - 1 : 1;

// The columns of x that a thread's row needs, counted from where its first column begins: column i % columns through
// tap i / columns.
CONVOY_CONSTEXPR int place_of(int i) { return i % columns * STRIDE_W + i / columns * DILATION_W - PAD_W; }
// The first that has the same vector of x.
CONVOY_CONSTEXPR int source_of(int i) {
  for (int k = 0; k < i; ++k) {
    if (VECTOR > 1 && floor_div(place_of(k), VECTOR) == floor_div(place_of(i), VECTOR)) return k;
  }
  return i;
}

__device__ __forceinline__ bool is_finite(float v) { return (__float_as_uint(v) & 0x7f800000u) != 0x7f800000u; }

__device__ __forceinline__ bool within(int place, int size) {
  return static_cast<unsigned>(place) < static_cast<unsigned>(size);
}

// A thread's first output, and what of x its first tap meets, which may lie beside it.
struct Place {
  int w, step_w;  // the first column of out, and how many columns lie from one to the next
  int in_d, in_h, in_w;
  const ELEMENT* from;
};
using Sums = float[ROWS][columns][CHANNELS];

// Of a row of taps, or, where several rows of out meet them, of a plane of taps.
constexpr int weight_rows = ROWS > 1 ? TAPS_H : 1;
using Weights = float[weight_rows][row_weights];
__device__ __forceinline__ void load_weights(Weights& weights, const float* from) {
#pragma unroll
  for (int i = 0; i < weight_rows * row_weights / 4; ++i) {
    const float4 four = reinterpret_cast<const float4*>(from)[i];
    float* const to = &weights[4 * i / row_weights][4 * i % row_weights];
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
}

// What row `row` of those of x that a thread needs adds; zeros are beside x. `from`: where its first window begins.
__device__ __forceinline__ void add_row(Sums& sums, const ELEMENT* from, const Weights& weights, int row,
                                        const Place& at, const Sizes& sizes) {
  const bool is_row = within(at.in_h + row * DILATION_H, sizes.in[1]);
  float v[TAPS_W * columns][VECTOR];
#pragma unroll
  for (int i = 0; i < TAPS_W * columns; ++i) {
    if (source_of(i) != i) continue;
    const int beside = VECTOR > 1 ? floor_div(place_of(i), VECTOR) * VECTOR + PAD_W
                                  : i % columns * at.step_w * STRIDE_W + i / columns * DILATION_W;
    Raw<ELEMENT, VECTOR> raw;
    clear(raw);
    if (is_row && within(at.in_w + beside, sizes.in[2])) {
      raw = load_raw<ELEMENT, VECTOR>(reinterpret_cast<const char*>(from + beside));
    }
    unpack<ELEMENT, VECTOR>(raw, v[i]);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (ROWS > 1 && (row < r || row - r >= TAPS_H)) continue;
#pragma unroll
    for (int i = 0; i < TAPS_W * columns; ++i) {
      const float value = v[source_of(i)][VECTOR > 1 ? place_of(i) - floor_div(place_of(i), VECTOR) * VECTOR : 0];
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        const float weight = weights[ROWS > 1 ? row - r : 0][i / columns * CHANNELS + c];
        sums[r][i % columns][c] = fmaf(value, weight, sums[r][i % columns][c]);
      }
    }
  }
}
// What a plane of x adds by a plane of taps.
__device__ __forceinline__ void add_plane(Sums& sums, const ELEMENT* from, const float* filters, const Place& at,
                                          const Sizes& sizes) {
  Weights weights;
  if constexpr (ROWS > 1) load_weights(weights, filters);
#pragma unroll(rows_at_once)
  for (int row = 0; row < ROWS + TAPS_H - 1; ++row) {
    if constexpr (ROWS == 1) load_weights(weights, filters + row * row_weights);
    add_row(sums, from, weights, row, at, sizes);
    from += DILATION_H * sizes.x_strides[3];
  }
}

// The same pixel by pixel, where weights are no numbers, which zeros beside x would make NaNs.
__device__ __forceinline__ void add_inside(Sums& sums, const ELEMENT* from, const float* filters, const Place& at,
                                           const Sizes& sizes) {
#pragma unroll 1
  for (int tap = 0; tap < TAPS_H * TAPS_W; ++tap) {
    const float* const weights = filters + tap / TAPS_W * row_weights + tap % TAPS_W * CHANNELS;
#pragma unroll
    for (int i = 0; i < ROWS * columns; ++i) {
      const int h = (i / columns + tap / TAPS_W) * DILATION_H;
      const int w = i % columns * at.step_w * STRIDE_W + tap % TAPS_W * DILATION_W;
      if (!within(at.in_h + h, sizes.in[1]) || !within(at.in_w + w, sizes.in[2])) continue;
      const float value = load_float(from + h * sizes.x_strides[3] + w);
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        sums[i / columns][i % columns][c] = fmaf(value, weights[c], sums[i / columns][i % columns][c]);
      }
    }
  }
}

// `add` adds a plane.
template <class Add>
__device__ __forceinline__ void add_all(Sums& sums, const float* filters, const Place& at, const Sizes& sizes,
                                        const Add& add) {
  const ELEMENT* of_channel = at.from;
#pragma unroll 1
  for (int channel = 0; channel < sizes.in_channels; ++channel, of_channel += sizes.x_strides[1]) {
    const ELEMENT* from = of_channel;
#pragma unroll 1
    for (int tap = 0; tap < TAPS_D; ++tap, filters += TAPS_H * row_weights) {
      if (within(at.in_d + tap * DILATION_D, sizes.in[0])) add(sums, from, filters, at, sizes);
      from += DILATION_D * sizes.x_strides[2];
    }
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), direct,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs args,
             const Sizes sizes),
            (x, w, out, args, sizes)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  float* const filters = reinterpret_cast<float*>(shared);
  const int n0 = static_cast<int>(WORK_BLOCK % sizes.blocks_n) * CHANNELS;
  bool strange = false;  // a weight is an infinity or a NaN
  for (int i = threadIdx.x; i < sizes.in_channels * TAPS_D * TAPS_H * row_weights; i += THREADS) {
    const int row = i / row_weights, tap = i % row_weights / CHANNELS, c = n0 + i % row_weights % CHANNELS;
    float weight = 0;
    if (tap < TAPS_W && c < sizes.out_channels) {
      weight = load_float(w + c * sizes.w_strides[0] + row / TAPS_H / TAPS_D * sizes.w_strides[1] +
                          row / TAPS_H % TAPS_D * sizes.w_strides[2] + row % TAPS_H * sizes.w_strides[3] +
                          tap * sizes.w_strides[4]);
    }
    strange = strange || !is_finite(weight);
    filters[i] = weight;
  }
  strange = __syncthreads_or(strange) != 0;

  const unsigned index = WORK_BLOCK / sizes.blocks_n * THREADS + threadIdx.x;
  if (index >= sizes.threads) return;
  const unsigned line = index / sizes.groups_w, plane = line / sizes.groups_h;
  const int group_h = static_cast<int>(line - plane * sizes.groups_h);
  const unsigned image = plane / sizes.out[0];
  const int first_d = static_cast<int>(plane - image * sizes.out[0]);
  const int first_h = ROWS == 1 ? group_h : group_h / DILATION_H * (DILATION_H * ROWS) + group_h % DILATION_H;
  Place at;
  at.w = static_cast<int>(index - line * sizes.groups_w) * VECTOR;
  at.step_w = VECTOR > 1 ? 1 : sizes.groups_w;
  at.in_d = first_d * STRIDE_D - PAD_D;
  at.in_h = first_h * STRIDE_H - PAD_H;
  at.in_w = at.w * STRIDE_W - PAD_W;
  at.from = x + image * sizes.x_strides[0] + at.in_d * sizes.x_strides[2] + at.in_h * sizes.x_strides[3] + at.in_w;
  Sums sums = {};
  if (strange) {
    add_all(sums, filters, at, sizes, add_inside);
  } else {
    add_all(sums, filters, at, sizes, add_plane);
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int h = first_h + r * DILATION_H;
    if (h >= sizes.out[1]) continue;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
      const int channel = n0 + c;
      if (channel >= sizes.out_channels) continue;
      const long long first = image * sizes.y_strides[0] + channel * sizes.y_strides[1] + first_d * sizes.y_strides[2] +
                              h * sizes.y_strides[3] + at.w;
      if constexpr (VECTOR > 1) {
        const float four[columns] = {sums[r][0][c], sums[r][1][c], sums[r][2][c], sums[r][3][c]};
        finish<ELEMENT, columns, 0>(four, out, first, channel, args);
      } else {
#pragma unroll
        for (int j = 0; j < columns; ++j) {
          const float one[1] = {sums[r][j][c]};
          if (at.w + j * at.step_w < sizes.out[2]) finish<ELEMENT, 1>(one, out, first + j * at.step_w, channel, args);
        }
      }
    }
  }
}
