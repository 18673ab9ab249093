// Depthwise stride-1 convolution (fprop, or dgrad with the filter turned round), lanes along channels, for filters
// whose arithmetic dominates. A thread computes one channel of a strip STRIP_ROWS x TILE_W of the output and walks down
// the input: TAPS_H rows of sums are open at a time, and each row of input, loaded once, adds to all of them. sum[k]
// after input row h belongs to output row h + PAD_H - (TAPS_H - 1) + k: moving on by a row is free, since the first
// multiply-add of a sum reads its neighbour. One row is the loop's body, so the code stays in the instruction cache;
// unrolled patches don't.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "rolling.cuh"
#include "work_blocks.cuh"

struct Sizes {
  int batch;
};

namespace {

constexpr int weights_row = taps | 1;
using UnitIndex = Index<SMALL_WORK>;
constexpr auto image_units = static_cast<UnitIndex>(strips) * tiles_w;

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue,
             const Sizes sizes),
            (in, w, out, epilogue, sizes)) {
  overlap();
  __shared__ float weights[CHANNEL_THREADS * weights_row];
  const int lane = threadIdx.x % CHANNEL_THREADS;
  const int pixel = threadIdx.x / CHANNEL_THREADS;
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * CHANNEL_THREADS;
  const int channel = first_channel + lane;

  for (int i = threadIdx.x; i < CHANNEL_THREADS * taps; i += THREADS) {
    const int c = i / taps;
    const int r = i % taps / TAPS_W;
    const int s = i % TAPS_W;
    if (ragged_channels && first_channel + c >= OUT_C) continue;
    weights[c * weights_row + i % taps] =
        to_float(w[static_cast<long long>(first_channel + c) * W_STRIDE_K +
                   (FLIPPED ? TAPS_H - 1 - r : r) * W_STRIDE_H + (FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W]);
  }
  __syncthreads();
  const UnitIndex unit = static_cast<UnitIndex>(WORK_BLOCK / slices) * pixel_threads + pixel;
  if (unit >= static_cast<UnitIndex>(sizes.batch) * image_units || (ragged_channels && channel >= OUT_C)) return;
  const int tile_w = static_cast<int>(unit % tiles_w);
  const int strip = static_cast<int>(unit / tiles_w % strips);
  const int n = static_cast<int>(unit / (tiles_w * strips));

  float kept[TAPS_H][TAPS_W];
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) kept[tap / TAPS_W][tap % TAPS_W] = weights[lane * weights_row + tap];

  float sum[TAPS_H][TILE_W];
#pragma unroll
  for (int k = 0; k < TAPS_H; ++k) {
#pragma unroll
    for (int b = 0; b < TILE_W; ++b) sum[k][b] = 0;
  }
  const int out_begin = strip * STRIP_ROWS;
  const int out_end = min_of(OUT_H, out_begin + STRIP_ROWS);
  const int first = max_of(0, out_begin - PAD_H);              // rows above the input leave the sums zero
  const int end = min_of(IN_H, out_end - PAD_H + TAPS_H - 1);  // one past the last row of input
  const char* row =
      fixed_address(in + static_cast<long long>(n) * IN_STRIDE_N + static_cast<long long>(first) * IN_STRIDE_H +
                    static_cast<long long>(tile_w * TILE_W - PAD_W) * IN_STRIDE_W +
                    static_cast<long long>(channel / MULTIPLIER) * IN_STRIDE_C);
  long long at =
      static_cast<long long>(n) * OUT_STRIDE_N + static_cast<long long>(first + PAD_H - (TAPS_H - 1)) * OUT_STRIDE_H +
      static_cast<long long>(tile_w * TILE_W) * OUT_STRIDE_W + static_cast<long long>(channel) * OUT_STRIDE_C;

  const auto store = [&](int row_out) {
    if (row_out >= out_begin) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) {
        if (!columns::stored(b, tile_w)) continue;
        const float value[1] = {sum[0][b]};
        finish<ELEMENT, 1>(value, out, at + b * static_cast<long long>(OUT_STRIDE_W), channel, epilogue);
      }
    }
    at += OUT_STRIDE_H;
  };

  // Rows are loaded ahead before they are used.
  constexpr int ahead = 2;
  Element raw[ahead][span_w];
#pragma unroll
  for (int u = 0; u < ahead; ++u) {
    load_row(raw[u], row, first + u < end, tile_w);
    row += IN_STRIDE_H * size;
  }
#pragma unroll 1
  for (int start = first; start < end; start += ahead) {
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const int h = start + u;
      if (u > 0 && h >= end) break;
      float x[span_w];
#pragma unroll
      for (int i = 0; i < span_w; ++i) {
        if (columns::ever_inside(i)) {
          float one[1];
          unpack<ELEMENT, 1>(raw[u][i], one);
          x[i] = one[0];
        }
      }
      load_row(raw[u], row, h + ahead < end, tile_w);
      row += IN_STRIDE_H * size;
      // An input at a time meets all weights that it can: it is read from the register file once.
#pragma unroll
      for (int i = 0; i < span_w; ++i) {
#pragma unroll
        for (int s = 0; s < TAPS_W; ++s) {
          const int b = i - s;
          if (b < 0 || b >= TILE_W) continue;
#pragma unroll
          for (int k = 0; k < TAPS_H; ++k) {
            // The first to reach a sum takes it from its neighbour.
            const float before = s > 0 ? sum[k][b] : k + 1 < TAPS_H ? sum[k + 1 < TAPS_H ? k + 1 : k][b] : 0.0f;
            sum[k][b] = columns::ever_inside(i) ? fmaf(x[i], kept[TAPS_H - 1 - k][s], before) : before;
          }
        }
      }
      store(h + PAD_H - (TAPS_H - 1));
    }
  }
  // Rows below the input: nothing adds to the open sums any more.
#pragma unroll 1
  for (int row_out = max_of(first, end) + PAD_H - (TAPS_H - 1); row_out < out_end; ++row_out) {
#pragma unroll
    for (int k = 0; k < TAPS_H; ++k) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) sum[k][b] = k + 1 < TAPS_H ? sum[k + 1 < TAPS_H ? k + 1 : k][b] : 0.0f;
    }
    store(row_out);
  }
}
