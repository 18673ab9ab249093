// Depthwise wgrad, lanes along channels (NHWC; with V = 1 any strides).
// A thread keeps the filters of V channels in registers and walks over patches of TILE_H x TILE_W pixels of dy: the
// patch stays in registers while the rows of x that it meets pass by. A block adds its threads' sums in a fixed order
// and writes them to partial[split][tap][k]; `reduce` adds the splits.
#include "block_sum.cuh"
#include "overlap.cuh"
#include "patch.cuh"
#include "problem.h"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {

constexpr int tiles_w = columns::tiles();
constexpr int tiles_h = rows::tiles();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int slice = CHANNEL_THREADS * VECTOR;
constexpr int slices = ceil_div(OUT_C, slice);
constexpr int pixel_threads = THREADS / CHANNEL_THREADS;
constexpr long long tiles_all = static_cast<long long>(BATCH) * OUT_D * tiles_h * tiles_w;
constexpr long long tiles_split = (tiles_all + SPLITS - 1) / SPLITS;
using TileIndex = Index<(tiles_all < (1ll << 30))>;  // 32 bits where they do: divisions are dear
constexpr bool ragged_channels = OUT_C % slice != 0;
constexpr long long size = sizeof(ELEMENT);

using RawV = Raw<ELEMENT, VECTOR>;

struct Row {
  RawV raw[span_w];
};

__device__ __forceinline__ void load_row(Row& row, const char* base, int j, int tile_h, int tile_w, bool real) {
  const bool row_inside = real && rows::inside(j, tile_h);
  const char* p = base + static_cast<long long>(rows::position(j)) * IN_STRIDE_H * size;
#pragma unroll
  for (int i = 0; i < span_w; ++i) {
    if (!columns::needed(i) || !columns::ever_inside(i)) continue;
    clear(row.raw[i]);
    if (row_inside && columns::inside(i, tile_w)) {
      row.raw[i] = load_raw<ELEMENT, VECTOR>(p + static_cast<long long>(columns::position(i)) * IN_STRIDE_W * size);
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
  const int depth_tap = static_cast<int>(WORK_BLOCK / slices) % TAPS_D;
  const int split = static_cast<int>(WORK_BLOCK / slices) / TAPS_D;
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * slice;
  const int channel = first_channel + lane * VECTOR;
  const bool real_channel = !ragged_channels || channel < OUT_C;

  float sum[taps][VECTOR];
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) sum[tap][v] = 0;
  }

  const TileIndex begin = split * static_cast<TileIndex>(tiles_split);
  const TileIndex end = begin + tiles_split < tiles_all ? begin + tiles_split : tiles_all;
#pragma unroll 1
  for (TileIndex tile = begin + pixel; tile < end; tile += pixel_threads) {
    if (!real_channel) break;
    const int tile_w = static_cast<int>(tile % tiles_w);
    const int tile_h = static_cast<int>(tile / tiles_w % tiles_h);
    const int image = static_cast<int>(tile / (tiles_w * tiles_h));
    const int out_d = image % OUT_D;
    const int n = image / OUT_D;
    int in_d = 0;
    if constexpr (TAPS_D > 1 || IN_D > 1 || OUT_D > 1) {
      in_d = out_d * STRIDE_D + depth_tap * DILATION_D - PAD_D;
      if (in_d < 0 || in_d >= IN_D) continue;
    }
    const char* base =
        fixed_address(x + static_cast<long long>(n) * IN_STRIDE_N + static_cast<long long>(in_d) * IN_STRIDE_D +
                      static_cast<long long>(tile_h * rows::step() + rows::base()) * IN_STRIDE_H +
                      static_cast<long long>(tile_w * columns::step() + columns::base()) * IN_STRIDE_W +
                      static_cast<long long>(channel / MULTIPLIER) * IN_STRIDE_C);
    const char* patch = fixed_address(
        dy + static_cast<long long>(n) * OUT_STRIDE_N + static_cast<long long>(out_d) * OUT_STRIDE_D +
        static_cast<long long>(tile_h * TILE_H) * OUT_STRIDE_H +
        static_cast<long long>(tile_w * TILE_W) * OUT_STRIDE_W + static_cast<long long>(channel) * OUT_STRIDE_C);
    Row ring[PREFETCH + 1];
#pragma unroll
    for (int j = 0; j < PREFETCH; ++j) {
      if (j < span_h && rows::needed(j) && rows::ever_inside(j)) load_row(ring[j], base, j, tile_h, tile_w, true);
    }
    RawV raw[TILE_H][TILE_W];
#pragma unroll
    for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) {
        clear(raw[a][b]);
        if (rows::stored(a, tile_h) && columns::stored(b, tile_w)) {
          raw[a][b] = load_raw<ELEMENT, VECTOR>(
              patch + (static_cast<long long>(a) * OUT_STRIDE_H + static_cast<long long>(b) * OUT_STRIDE_W) * size);
        }
      }
    }
    float g[TILE_H][TILE_W][VECTOR];
#pragma unroll
    for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) unpack<ELEMENT, VECTOR>(raw[a][b], g[a][b]);
    }
#pragma unroll
    for (int j = 0; j < span_h; ++j) {
      const int ahead = j + PREFETCH;
      if (ahead < span_h && rows::needed(ahead) && rows::ever_inside(ahead)) {
        load_row(ring[ahead % (PREFETCH + 1)], base, ahead, tile_h, tile_w, true);
      }
      if (!rows::needed(j) || !rows::ever_inside(j)) continue;
      float v[span_w][VECTOR];
#pragma unroll
      for (int i = 0; i < span_w; ++i) {
        if (columns::needed(i) && columns::ever_inside(i)) {
          unpack<ELEMENT, VECTOR>(ring[j % (PREFETCH + 1)].raw[i], v[i]);
        }
      }
      for_products_of_row(j, [&](int a, int b, int i, int tap) {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) {
          sum[tap][e] = fmaf(v[i][e], g[a][b][e], sum[tap][e]);
        }
      });
    }
  }

  block_sum<taps, VECTOR, THREADS, CHANNEL_THREADS>(
      sum, partial + (static_cast<long long>(split) * TAPS_D + depth_tap) * taps * OUT_C, first_channel, OUT_C);
}
