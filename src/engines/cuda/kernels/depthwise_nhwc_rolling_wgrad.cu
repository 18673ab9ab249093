// Depthwise stride-1 wgrad, lanes along channels, for filters whose arithmetic dominates.
// A thread keeps one channel's filter in registers and walks down strips of STRIP_ROWS rows of dy, TILE_W columns wide:
// the last TAPS_H rows of dy are kept, and each row of x, loaded once, meets them all. UNROLL rows are the loop's body:
// the kept rows are moved once in UNROLL rows, and the code still stays in the instruction cache.
// A block adds its threads' sums in a fixed order into partial[split][tap][k]; `reduce` adds the splits.
#include "block_sum.cuh"
#include "overlap.cuh"
#include "rolling.cuh"
#include "work_blocks.cuh"

namespace {

constexpr long long units_all = static_cast<long long>(BATCH) * strips * tiles_w;
constexpr long long units_split = (units_all + SPLITS - 1) / SPLITS;
using UnitIndex = Index<(units_all < (1ll << 30))>;

__device__ __forceinline__ void load_dy(Element (&raw)[TILE_W], const char* row, bool inside, int tile_w) {
#pragma unroll
  for (int b = 0; b < TILE_W; ++b) {
    clear(raw[b]);
    if (inside && columns::stored(b, tile_w)) {
      raw[b] = load_raw<ELEMENT, 1>(row + static_cast<long long>(b) * OUT_STRIDE_W * size);
    }
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, float* __restrict__ partial),
            (x, dy, partial)) {
  overlap();
  const int lane = threadIdx.x % CHANNEL_THREADS;
  const int pixel = threadIdx.x / CHANNEL_THREADS;
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * CHANNEL_THREADS;
  const int split = static_cast<int>(WORK_BLOCK / slices);
  const int channel = first_channel + lane;

  float sum[taps][1];
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) sum[tap][0] = 0;

  const UnitIndex begin = split * static_cast<UnitIndex>(units_split);
  const UnitIndex end = begin + units_split < units_all ? begin + units_split : units_all;
#pragma unroll 1
  for (UnitIndex unit = begin + pixel; unit < end; unit += pixel_threads) {
    if (ragged_channels && channel >= OUT_C) break;
    const int tile_w = static_cast<int>(unit % tiles_w);
    const int strip = static_cast<int>(unit / tiles_w % strips);
    const int n = static_cast<int>(unit / (tiles_w * strips));
    const int out_begin = strip * STRIP_ROWS;
    const int out_end = min_of(OUT_H, out_begin + STRIP_ROWS);
    // Row h of x meets dy rows h + PAD_H - (TAPS_H - 1) .. h + PAD_H; before the first, some of these are loaded.
    const int first = max_of(0, out_begin - PAD_H);
    const int last = min_of(IN_H, out_end - PAD_H + TAPS_H - 1);  // one past it
    const char* x_row =
        fixed_address(x + static_cast<long long>(n) * IN_STRIDE_N + static_cast<long long>(first) * IN_STRIDE_H +
                      static_cast<long long>(tile_w * TILE_W - PAD_W) * IN_STRIDE_W +
                      static_cast<long long>(channel / MULTIPLIER) * IN_STRIDE_C);
    int p = out_begin;  // the next row of dy
    const char* dy_row = fixed_address(
        dy + static_cast<long long>(n) * OUT_STRIDE_N + static_cast<long long>(p) * OUT_STRIDE_H +
        static_cast<long long>(tile_w * TILE_W) * OUT_STRIDE_W + static_cast<long long>(channel) * OUT_STRIDE_C);
    float g[TAPS_H - 1 + UNROLL][TILE_W];
#pragma unroll
    for (int k = 0; k < TAPS_H - 1 + UNROLL; ++k) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) g[k][b] = 0;
    }
    Element next[UNROLL][TILE_W];
    // Rows of dy that the first row of x meets beside the newest.
#pragma unroll
    for (int k = 0; k < TAPS_H - 1; ++k) {
      const int row = first + PAD_H - (TAPS_H - 1) + k;
      if (row < out_begin || row >= out_end) continue;
      load_dy(next[0], dy_row + static_cast<long long>(row - p) * OUT_STRIDE_H * size, true, tile_w);
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) {
        float one[1];
        unpack<ELEMENT, 1>(next[0][b], one);
        g[k][b] = one[0];
      }
    }
    dy_row += static_cast<long long>(first + PAD_H - p) * OUT_STRIDE_H * size;
    p = first + PAD_H;

    // Rows are loaded UNROLL before they are used.
    Element raw[UNROLL][span_w];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      load_row(raw[u], x_row, first + u < last, tile_w);
      load_dy(next[u], dy_row, p >= out_begin && p < out_end, tile_w);
      x_row += IN_STRIDE_H * size;
      dy_row += OUT_STRIDE_H * size;
      ++p;
    }
#pragma unroll 1
    for (int h = first; h < last; h += UNROLL) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        float v[span_w];
#pragma unroll
        for (int i = 0; i < span_w; ++i) {
          if (!columns::ever_inside(i)) continue;
          float one[1];
          unpack<ELEMENT, 1>(raw[u][i], one);
          v[i] = one[0];
        }
#pragma unroll
        for (int b = 0; b < TILE_W; ++b) {
          float one[1];
          unpack<ELEMENT, 1>(next[u][b], one);
          g[TAPS_H - 1 + u][b] = one[0];
        }
        load_row(raw[u], x_row, h + u + UNROLL < last, tile_w);
        load_dy(next[u], dy_row, p >= out_begin && p < out_end, tile_w);
        x_row += IN_STRIDE_H * size;
        dy_row += OUT_STRIDE_H * size;
        ++p;
#pragma unroll
        for (int r = 0; r < TAPS_H; ++r) {
#pragma unroll
          for (int s = 0; s < TAPS_W; ++s) {
#pragma unroll
            for (int b = 0; b < TILE_W; ++b) {
              if (!columns::ever_inside(b + s)) continue;
              sum[r * TAPS_W + s][0] = fmaf(v[b + s], g[u + TAPS_H - 1 - r][b], sum[r * TAPS_W + s][0]);
            }
          }
        }
      }
#pragma unroll
      for (int k = 0; k < TAPS_H - 1; ++k) {
#pragma unroll
        for (int b = 0; b < TILE_W; ++b) g[k][b] = g[k + UNROLL][b];
      }
    }
  }
  block_sum<taps, 1, THREADS, CHANNEL_THREADS>(sum, partial + static_cast<long long>(split) * taps * OUT_C,
                                               first_channel, OUT_C);
}
