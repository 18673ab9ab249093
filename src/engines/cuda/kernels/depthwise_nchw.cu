// Depthwise fprop and dgrad of packed NCHW tensors. Neighbouring planes of an image, or a strip of rows of one plane,
// are one range of memory: a block copies it to shared memory whole, computes from there and writes its part of the
// output the same way, so rows of any length move 16 bytes at a time. It goes on to the same channels of other images,
// the next of which is copied while one is worked on.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "patch.cuh"
#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {

constexpr int tiles_w = columns::tiles();
constexpr int tiles_h = rows::tiles();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int filters = FAN_IN * taps;  // weights of an output channel
constexpr int strips = ceil_div(tiles_h, STRIP_TILES);
constexpr int in_plane = IN_H * IN_W;
constexpr int out_plane = OUT_H * OUT_W;
constexpr int groups = ceil_div(OUT_C, PLANES);
constexpr long long in_all = static_cast<long long>(BATCH) * IN_C * in_plane;
constexpr int strip_span = min_of(IN_H, (STRIP_TILES - 1) * rows::step() + rows::position(span_h - 1) + 1);
constexpr int in_room =
    room<ELEMENT>(strips > 1 ? strip_span * IN_W : ceil_div(PLANES * FAN_IN, MULTIPLIER) * in_plane);
constexpr int out_room = room<ELEMENT>(strips > 1 ? STRIP_TILES * TILE_H * OUT_W : PLANES * out_plane);
constexpr int items = PLANES * STRIP_TILES * tiles_w;
static_assert(STAGES == 2 || SPLITS == BATCH);
constexpr bool kept_once = FAN_IN == 1 && items <= THREADS;  // a thread's weights are those of one channel

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue),
            (in, w, out, epilogue)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  char* shared_out = shared + STAGES * in_room;
  float* weights = reinterpret_cast<float*>(shared_out + out_room);

  const int strip = static_cast<int>(WORK_BLOCK % strips);
  const int first_channel = static_cast<int>(WORK_BLOCK / strips % groups) * PLANES;
  const int split = static_cast<int>(WORK_BLOCK / strips / groups);
  const int planes = min_of(PLANES, OUT_C - first_channel);

  // The rows of a strip, or all of them.
  const int first_tile = strip * STRIP_TILES;
  const int in_first = strips == 1 ? 0 : max_of(0, first_tile * rows::step() + rows::base());
  const int in_last =
      strips == 1
          ? IN_H
          : min_of(IN_H, (first_tile + STRIP_TILES - 1) * rows::step() + rows::base() + rows::position(span_h - 1) + 1);
  const int out_first = strips == 1 ? 0 : max_of(0, first_tile * TILE_H + rows::start());
  const int out_last = strips == 1 ? OUT_H : min_of(OUT_H, (first_tile + STRIP_TILES) * TILE_H + rows::start());
  const auto in_begin = [&](int n) {
    return (static_cast<long long>(n) * IN_C + first_channel * FAN_IN / MULTIPLIER) * in_plane +
           static_cast<long long>(in_first) * IN_W;
  };
  const int in_elements =
      strips == 1 ? (planes * FAN_IN + MULTIPLIER - 1) / MULTIPLIER * in_plane : max_of(0, in_last - in_first) * IN_W;
  const int out_elements = strips == 1 ? planes * out_plane : max_of(0, out_last - out_first) * OUT_W;
  const auto start = [&](int n, int stage) {
    if (n < BATCH) {
      copy_in<ELEMENT, THREADS>(shared + stage * in_room, in, in_begin(n), in_begin(n) + in_elements, in_all);
    }
    cp_async_commit();
  };
  start(split, 0);
  for (int i = threadIdx.x; i < planes * filters; i += THREADS) {
    if constexpr (W_STRIDE_W == 1 && W_STRIDE_H == TAPS_W && W_STRIDE_K == taps) {
      weights[i] = to_float(w[static_cast<long long>(first_channel) * filters + i]);
    } else {
      weights[i] = to_float(w[(static_cast<long long>(first_channel) * FAN_IN + i / taps) * W_STRIDE_K +
                              i % taps / TAPS_W * W_STRIDE_H + i % TAPS_W * W_STRIDE_W]);
    }
  }
  float kept[taps];
  const auto keep = [&](const float* filter) {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) kept[tap] = filter[FLIPPED ? taps - 1 - tap : tap];
  };
  if constexpr (kept_once) {
    __syncthreads();
    keep(weights + min_of(static_cast<int>(threadIdx.x) / (tiles_w * STRIP_TILES), PLANES - 1) * filters);
  }

  int stage = 0;
#pragma unroll 1
  for (int n = split; n < BATCH; n += SPLITS) {
    if constexpr (STAGES == 2) start(n + SPLITS, 1 - stage);
    cp_async_wait<STAGES - 1>();
    __syncthreads();
    const unsigned in_address =
        shared_address(shared + stage * in_room) + phase<ELEMENT>(in_begin(n)) * static_cast<int>(sizeof(ELEMENT));
    const long long out_begin =
        (static_cast<long long>(n) * OUT_C + first_channel) * out_plane + static_cast<long long>(out_first) * OUT_W;
    ELEMENT* staged = reinterpret_cast<ELEMENT*>(shared_out) + phase<ELEMENT>(out_begin);

#pragma unroll 1
    for (int item = threadIdx.x; item < items; item += THREADS) {
      const int tile_w = item % tiles_w;
      const int tile_h = first_tile + item / tiles_w % STRIP_TILES;
      const int plane = item / (tiles_w * STRIP_TILES);
      if (plane >= planes || tile_h >= tiles_h) continue;
      const int channel = first_channel + plane;

      float sum[TILE_H][TILE_W];
#pragma unroll
      for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
        for (int b = 0; b < TILE_W; ++b) sum[a][b] = 0;
      }
#pragma unroll 1
      for (int k = 0; k < FAN_IN; ++k) {
        if constexpr (!kept_once) keep(weights + (plane * FAN_IN + k) * taps);
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
          for_products_of_row(j, [&](int a, int b, int i, int tap) { sum[a][b] = fmaf(x[i], kept[tap], sum[a][b]); });
        }
      }

      const int local = plane * out_plane + (tile_h * TILE_H + rows::start() - out_first) * OUT_W + tile_w * TILE_W +
                        columns::start();
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
    copy_out<ELEMENT, THREADS>(out, shared_out, out_begin, out_begin + out_elements);
    stage = STAGES - 1 - stage;
  }
}
