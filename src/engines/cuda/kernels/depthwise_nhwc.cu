// Depthwise fprop and dgrad, lanes along channels (NHWC; with V = 1 any strides).
// A thread computes V channels of a TILE_H x TILE_W patch of the output: it walks over the input rows that the patch
// sees, each loaded once (through L1, where the overlap with neighbours is found), kept in registers and used for every
// output row that it meets.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "patch.cuh"
#include "problem.h"
#include "types.cuh"
#include "work_blocks.cuh"

struct Sizes {
  int batch;
};

namespace {

constexpr int tiles_w = columns::tiles();
constexpr int tiles_h = rows::tiles();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int taps_all = taps * TAPS_D;
constexpr int weights_row = (taps_all * FAN_IN) | 1;  // odd: neighbouring channels lie in other banks
constexpr int slice = CHANNEL_THREADS * VECTOR;       // channels of a block
constexpr int slices = ceil_div(OUT_C, slice);
constexpr int pixel_threads = THREADS / CHANNEL_THREADS;
using TileIndex = Index<SMALL_WORK>;  // 32 bits where they do: divisions are dear
constexpr auto image_tiles = static_cast<TileIndex>(OUT_D) * tiles_h * tiles_w;
constexpr bool ragged_channels = OUT_C % slice != 0;

constexpr long long size = sizeof(ELEMENT);

using RawV = Raw<ELEMENT, VECTOR>;

struct Row {
  RawV raw[span_w];
};

__device__ __forceinline__ void load_row(Row& row, const char* base, int j, int tile_h, int tile_w) {
  const bool row_inside = rows::inside(j, tile_h);
  const char* p = base + static_cast<long long>(rows::position(j)) * IN_STRIDE_H * size;
#pragma unroll
  for (int i = 0; i < span_w; ++i) {
    if (!columns::needed(i) || !columns::ever_inside(i)) continue;
    clear(row.raw[i]);
    if (row_inside && columns::inside(i, tile_w))
      row.raw[i] = load_raw<ELEMENT, VECTOR>(p + static_cast<long long>(columns::position(i)) * IN_STRIDE_W * size);
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue,
             const Sizes sizes),
            (in, w, out, epilogue, sizes)) {
  overlap();
  __shared__ float weights[slice * weights_row];
  constexpr bool flat = TAPS_D * FAN_IN == 1;  // one plane of input, one filter
  const int lane = threadIdx.x % CHANNEL_THREADS;
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * slice;
  const int channel = first_channel + lane * VECTOR;  // of out
  const TileIndex tile = static_cast<TileIndex>(WORK_BLOCK / slices) * pixel_threads + threadIdx.x / CHANNEL_THREADS;
  const bool real = tile < static_cast<TileIndex>(sizes.batch) * image_tiles && (!ragged_channels || channel < OUT_C);
  const int tile_w = static_cast<int>(tile % tiles_w);
  const int tile_h = static_cast<int>(tile / tiles_w % tiles_h);
  const int image = static_cast<int>(tile / (tiles_w * tiles_h));
  const int out_d = image % OUT_D;
  const int n = image / OUT_D;

  // The plane of input that tap t of filter k meets; null where it is padding.
  const auto plane = [&](int t, int k) -> const char* {
    int in_d = 0;
    if constexpr (TAPS_D > 1 || IN_D > 1 || OUT_D > 1) {
      if constexpr (TRANSPOSED) {
        const int scaled = out_d + PAD_D - t * DILATION_D;
        if (scaled < 0 || scaled % STRIDE_D != 0 || scaled / STRIDE_D >= IN_D) return nullptr;
        in_d = scaled / STRIDE_D;
      } else {
        in_d = out_d * STRIDE_D + t * DILATION_D - PAD_D;
        if (in_d < 0 || in_d >= IN_D) return nullptr;
      }
    }
    return fixed_address(in + static_cast<long long>(n) * IN_STRIDE_N + static_cast<long long>(in_d) * IN_STRIDE_D +
                         static_cast<long long>(tile_h * rows::step() + rows::base()) * IN_STRIDE_H +
                         static_cast<long long>(tile_w * columns::step() + columns::base()) * IN_STRIDE_W +
                         static_cast<long long>((channel * FAN_IN + k) / MULTIPLIER) * IN_STRIDE_C);
  };
  // The first rows are on their way while the weights are fetched.
  Row ring[PREFETCH + 1];
  const char* base = nullptr;
  const auto load_first_rows = [&] {
#pragma unroll
    for (int j = 0; j < PREFETCH; ++j) {
      if (j < span_h && rows::needed(j) && rows::ever_inside(j)) load_row(ring[j], base, j, tile_h, tile_w);
    }
  };
  if constexpr (flat) {
    if (real) {
      base = plane(0, 0);
      if (base != nullptr) load_first_rows();
    }
  }

  // weights[c][k][t][r][s], k over the FAN_IN filters that add up in one output channel (dgrad with a multiplier).
#pragma unroll 8
  for (int i = threadIdx.x; i < slice * FAN_IN * taps_all; i += THREADS) {
    const int c = i / (FAN_IN * taps_all);
    const int rest = i % (FAN_IN * taps_all);
    const int k = rest / taps_all;
    const int tap = rest % taps_all;
    const int t = tap / taps;
    const int r = tap / TAPS_W % TAPS_H;
    const int s = tap % TAPS_W;
    if (ragged_channels && first_channel + c >= OUT_C) continue;
    const long long filter = static_cast<long long>(first_channel + c) * FAN_IN + k;
    weights[c * weights_row + rest] =
        load_float(w + filter * W_STRIDE_K + static_cast<long long>(FLIPPED ? TAPS_D - 1 - t : t) * W_STRIDE_D +
                   static_cast<long long>(FLIPPED ? TAPS_H - 1 - r : r) * W_STRIDE_H +
                   static_cast<long long>(FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W);
  }
  __syncthreads();
  if (!real) return;

  float sum[TILE_H][TILE_W][VECTOR];
#pragma unroll
  for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
    for (int b = 0; b < TILE_W; ++b) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) sum[a][b][v] = 0;
    }
  }

#pragma unroll 1
  for (int deep = 0; deep < TAPS_D * FAN_IN; ++deep) {
    const int t = deep % TAPS_D;
    const int k = deep / TAPS_D;
    if constexpr (!flat) base = plane(t, k);
    if (base == nullptr) continue;
    if constexpr (!flat) load_first_rows();
    const float* plane_weights = weights + lane * VECTOR * weights_row + k * taps_all + t * taps;
    float kept[taps][VECTOR];
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) kept[tap][v] = plane_weights[v * weights_row + tap];
    }
#pragma unroll
    for (int j = 0; j < span_h; ++j) {
      const int ahead = j + PREFETCH;
      if (ahead < span_h && rows::needed(ahead) && rows::ever_inside(ahead)) {
        load_row(ring[ahead % (PREFETCH + 1)], base, ahead, tile_h, tile_w);
      }
      if (!rows::needed(j) || !rows::ever_inside(j)) continue;
      float x[span_w][VECTOR];
#pragma unroll
      for (int i = 0; i < span_w; ++i) {
        if (columns::needed(i) && columns::ever_inside(i)) {
          unpack<ELEMENT, VECTOR>(ring[j % (PREFETCH + 1)].raw[i], x[i]);
        }
      }
      for_products_of_row(j, [&](int a, int b, int i, int tap) {
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) sum[a][b][v] = fmaf(x[i][v], kept[tap][v], sum[a][b][v]);
      });
    }
  }

  const long long first = static_cast<long long>(n) * OUT_STRIDE_N + static_cast<long long>(out_d) * OUT_STRIDE_D +
                          static_cast<long long>(tile_h * TILE_H + rows::start()) * OUT_STRIDE_H +
                          static_cast<long long>(tile_w * TILE_W + columns::start()) * OUT_STRIDE_W +
                          static_cast<long long>(channel) * OUT_STRIDE_C;
#pragma unroll
  for (int a = 0; a < TILE_H; ++a) {
    if (!rows::stored(a, tile_h)) continue;
#pragma unroll
    for (int b = 0; b < TILE_W; ++b) {
      if (!columns::stored(b, tile_w)) continue;
      const long long at = first + static_cast<long long>(a) * OUT_STRIDE_H + b * static_cast<long long>(OUT_STRIDE_W);
      finish<ELEMENT, VECTOR>(sum[a][b], out, at, channel, epilogue);
    }
  }
}
