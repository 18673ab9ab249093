// Depthwise fprop and dgrad of packed NCHW tensors. Neighbouring planes, or a strip of rows of one plane, are one range
// of memory: a block copies it to shared memory whole, computes from there and writes its part of the output the same
// way, so rows of any length move 16 bytes at a time.
#include "axis.cuh"
#include "epilogue.cuh"
#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"

namespace {

using rows = Axis<IN_H, OUT_H, TAPS_H, STRIDE_H, DILATION_H, PAD_H, TILE_H, TRANSPOSED>;
using columns = Axis<IN_W, OUT_W, TAPS_W, STRIDE_W, DILATION_W, PAD_W, TILE_W, TRANSPOSED>;
constexpr int span_h = rows::span();
constexpr int span_w = columns::span();
constexpr int tiles_w = columns::tiles();
constexpr int tiles_h = rows::tiles();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int weights_row = (taps * FAN_IN) | 1;
constexpr int strips = ceil_div(tiles_h, STRIP_TILES);
constexpr int in_plane = IN_H * IN_W;
constexpr int out_plane = OUT_H * OUT_W;
constexpr long long planes_all = static_cast<long long>(BATCH) * OUT_C;
constexpr long long in_all = planes_all * FAN_IN / MULTIPLIER * in_plane;
constexpr int strip_span = min_of(IN_H, (STRIP_TILES - 1) * rows::step() + rows::position(span_h - 1) + 1);
constexpr int in_room =
    room<ELEMENT>(strips > 1 ? strip_span * IN_W : ceil_div(PLANES * FAN_IN, MULTIPLIER) * in_plane);
constexpr int out_room = room<ELEMENT>(strips > 1 ? STRIP_TILES * TILE_H * OUT_W : PLANES * out_plane);
constexpr int items = PLANES * STRIP_TILES * tiles_w;

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    depthwise(const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out,
              const EpilogueArgs epilogue) {
  extern __shared__ __align__(16) char shared[];
  char* shared_in = shared;
  char* shared_out = shared + in_room;
  float* weights = reinterpret_cast<float*>(shared + in_room + out_room);

  const long long first_plane = static_cast<long long>(blockIdx.x / strips) * PLANES;
  const int strip = static_cast<int>(blockIdx.x % strips);
  const int planes = static_cast<int>(planes_all - first_plane < PLANES ? planes_all - first_plane : PLANES);
  const long long first_in_plane = first_plane * FAN_IN / MULTIPLIER;

  // The rows of a strip, or all of them.
  const int first_tile = strip * STRIP_TILES;
  const int in_first = strips == 1 ? 0 : max_of(0, first_tile * rows::step() + rows::base());
  const int in_last =
      strips == 1
          ? IN_H
          : min_of(IN_H, (first_tile + STRIP_TILES - 1) * rows::step() + rows::base() + rows::position(span_h - 1) + 1);
  const int out_first = strips == 1 ? 0 : max_of(0, first_tile * TILE_H + rows::start());
  const int out_last = strips == 1 ? OUT_H : min_of(OUT_H, (first_tile + STRIP_TILES) * TILE_H + rows::start());
  const long long in_begin = first_in_plane * in_plane + static_cast<long long>(in_first) * IN_W;
  const long long in_end = strips == 1
                               ? (first_in_plane + (planes * FAN_IN + MULTIPLIER - 1) / MULTIPLIER) * in_plane
                               : first_in_plane * in_plane + static_cast<long long>(max_of(in_first, in_last)) * IN_W;
  const long long out_begin = first_plane * out_plane + static_cast<long long>(out_first) * OUT_W;
  const long long out_end = strips == 1 ? (first_plane + planes) * out_plane
                                        : first_plane * out_plane + static_cast<long long>(out_last) * OUT_W;

  copy_in<ELEMENT, THREADS>(shared_in, in, in_begin, in_end, in_all);
  cp_async_commit();
  for (int i = threadIdx.x; i < planes * FAN_IN * taps; i += THREADS) {
    const int p = i / (FAN_IN * taps);
    const int rest = i % (FAN_IN * taps);
    const int k = rest / taps;
    const int r = rest % taps / TAPS_W;
    const int s = rest % TAPS_W;
    const long long filter = (first_plane + p) % OUT_C * FAN_IN + k;
    weights[p * weights_row + rest] = to_float(w[filter * W_STRIDE_K + (FLIPPED ? TAPS_H - 1 - r : r) * W_STRIDE_H +
                                                 (FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W]);
  }
  cp_async_wait<0>();
  __syncthreads();

  const unsigned in_address = shared_address(shared_in) + phase<ELEMENT>(in_begin) * static_cast<int>(sizeof(ELEMENT));
  ELEMENT* staged = reinterpret_cast<ELEMENT*>(shared_out) + phase<ELEMENT>(out_begin);

#pragma unroll 1
  for (int item = threadIdx.x; item < items; item += THREADS) {
    const int tile_w = item % tiles_w;
    const int tile_h = first_tile + item / tiles_w % STRIP_TILES;
    const int plane = item / (tiles_w * STRIP_TILES);
    if (plane >= planes || tile_h >= tiles_h) continue;
    const int channel = static_cast<int>((first_plane + plane) % OUT_C);

    float sum[TILE_H][TILE_W];
#pragma unroll
    for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) sum[a][b] = 0;
    }
#pragma unroll 1
    for (int k = 0; k < FAN_IN; ++k) {
      const float* my_weights = weights + plane * weights_row + k * taps;
      float kept[taps];
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) kept[tap] = my_weights[tap];
      const int in_local = (plane * FAN_IN + k) / MULTIPLIER;
      const unsigned base =
          in_address +
          static_cast<unsigned>((in_local * in_plane + (tile_h * rows::step() + rows::base() - in_first) * IN_W +
                                 tile_w * columns::step() + columns::base()) *
                                static_cast<int>(sizeof(ELEMENT)));
#pragma unroll
      for (int j = 0; j < span_h; ++j) {
        if (!rows::needed(j) || !rows::ever_inside(j)) continue;
        const bool row_inside = rows::inside(j, tile_h);
        float x[span_w];
#pragma unroll
        for (int i = 0; i < span_w; ++i) {
          if (!columns::needed(i) || !columns::ever_inside(i)) continue;
          x[i] = 0;
          if (row_inside && columns::inside(i, tile_w)) {
            x[i] = load_shared<ELEMENT>(base + (rows::position(j) * IN_W + columns::position(i)) *
                                                   static_cast<int>(sizeof(ELEMENT)));
          }
        }
#pragma unroll
        for (int a = 0; a < TILE_H; ++a) {
          const int r = rows::tap(a, j);
          if (r < 0) continue;
#pragma unroll
          for (int i = 0; i < span_w; ++i) {
            if (!columns::ever_inside(i)) continue;
#pragma unroll
            for (int b = 0; b < TILE_W; ++b) {
              const int s = columns::tap(b, i);
              if (s < 0) continue;
              sum[a][b] = fmaf(x[i], kept[r * TAPS_W + s], sum[a][b]);
            }
          }
        }
      }
    }

    const int local =
        plane * out_plane + (tile_h * TILE_H + rows::start() - out_first) * OUT_W + tile_w * TILE_W + columns::start();
#pragma unroll
    for (int a = 0; a < TILE_H; ++a) {
      if (!rows::stored(a, tile_h)) continue;
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) {
        if (!columns::stored(b, tile_w)) continue;
        const int at = local + a * OUT_W + b;
        const float value[1] = {sum[a][b]};
        staged[at] = finished<ELEMENT>(value[0], out, out_begin + at, channel, epilogue);
      }
    }
  }
  __syncthreads();
  copy_out<ELEMENT, THREADS>(out, shared_out, out_begin, out_end);
}
