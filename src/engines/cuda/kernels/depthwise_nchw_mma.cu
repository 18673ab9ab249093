// Depthwise fprop and dgrad of packed 16-bit NCHW tensors on the tensor cores. A product of matrices takes 8 rows of
// each of two units of the input as the 16 rows of a, 16 neighbouring columns as its columns, and as b the weights of
// one row of taps, each column shifted by the stride: d is 8 columns of the output. A block copies PLANES neighbouring
// planes, or UNITS of 8 rows of tiles of one plane, of IMAGES images to shared memory, where zeros surround them. A
// warp works on one plane at a time. A tile is one row high and one column wide (dgrad with a stride: a stride).
#include "axis.cuh"
#include "epilogue.cuh"
#include "mma.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "plane_copy.cuh"
#include "problem.h"
#include "types.cuh"

namespace {

constexpr int tile_h = TRANSPOSED ? STRIDE_H : 1;
constexpr int tile_w = TRANSPOSED ? STRIDE_W : 1;
using rows = Axis<IN_H, OUT_H, TAPS_H, STRIDE_H, DILATION_H, PAD_H, tile_h, TRANSPOSED>;
constexpr int span_h = rows::span();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int strips = ceil_div(rows::tiles(), 8 * UNITS);
constexpr int in_rows = (8 * UNITS - 1) * rows::step() + rows::position(span_h - 1) + 1;
constexpr int out_rows = strips > 1 ? 8 * UNITS* tile_h : OUT_H;
constexpr int plane_bytes = in_rows * PITCH;
constexpr int in_bytes = IMAGES * PLANES * plane_bytes;
constexpr int out_bytes = room<ELEMENT>(PLANES * out_rows * OUT_W);
constexpr int plane_groups = ceil_div(OUT_C, PLANES);
constexpr int units = IMAGES * UNITS;  // of a channel
constexpr int pairs = ceil_div(units, 2);
constexpr int groups_w = ceil_div(OUT_W + STAGGER, 8 * tile_w);  // of tile_w products' columns
constexpr bool pairs_of_columns = OUT_W % 2 == 0 && STAGGER % 2 == 0;
constexpr int step_w = TRANSPOSED ? 1 : STRIDE_W;  // matrices of input from group to group

// Element k of the input columns of a group meets column n of its outputs through tap s where s * DILATION_W is:
constexpr int offset = TRANSPOSED ? PAD_W - STAGGER + LEFT * STRIDE_W : PAD_W - LEFT + STAGGER * STRIDE_W;
constexpr int per_k = TRANSPOSED ? -STRIDE_W : 1;
constexpr int per_n = TRANSPOSED ? 1 : -STRIDE_W;
constexpr int last_k = 8 * MATRICES - 1;
constexpr int last_n = 8 * tile_w - 1;
constexpr int least_reach = offset + (TRANSPOSED ? per_k * last_k : per_n * last_n);
constexpr int most_reach = offset + (TRANSPOSED ? per_n * last_n : per_k * last_k);
constexpr int reach = most_reach - least_reach + 1;  // a row of weights with zeros around it
constexpr int weights_bytes = (PLANES * TAPS_H * reach * 2 + 15) / 16 * 16;

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    depthwise(const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out,
              const EpilogueArgs epilogue) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  char* staged = shared + in_bytes;
  unsigned short* weights = reinterpret_cast<unsigned short*>(staged + IMAGES * out_bytes);
  const int strip = static_cast<int>(blockIdx.x % strips);
  const int place = static_cast<int>(blockIdx.x / strips);
  const int first_plane = place % plane_groups * PLANES;
  const int first_image = place / plane_groups * IMAGES;
  const int planes = min_of(PLANES, OUT_C - first_plane);
  const int images = min_of(IMAGES, BATCH - first_image);
  const int first_row = strip * 8 * UNITS * rows::step() + rows::base();
  const int out_first = strips == 1 ? 0 : max_of(0, strip * 8 * UNITS * tile_h + rows::start());
  const int out_last = strips == 1 ? OUT_H : min_of(OUT_H, (strip + 1) * 8 * UNITS * tile_h + rows::start());

  clear_shared<in_bytes, THREADS>(shared);
  clear_shared<weights_bytes, THREADS>(reinterpret_cast<char*>(weights));
  __syncthreads();
  for (int image = 0; image < images; ++image) {
    copy_planes<ELEMENT, THREADS, IN_H, IN_W, LEFT, PITCH, plane_bytes, min_of(in_rows, IN_H)>(
        shared + image * PLANES * plane_bytes,
        in + (static_cast<long long>(first_image + image) * IN_C + first_plane) * (IN_H * IN_W), planes,
        max_of(0, first_row), min_of(IN_H, first_row + in_rows), first_row);
  }
  cp_async_commit();
  for (int i = threadIdx.x; i < planes * taps; i += THREADS) {
    const int r = i % taps / TAPS_W;
    const int s = i % TAPS_W;
    const int at = s * DILATION_W - least_reach;
    if (at < 0 || at >= reach) continue;
    weights[(i / taps * TAPS_H + r) * reach + at] =
        w[(first_plane + i / taps) * static_cast<long long>(W_STRIDE_K) + (FLIPPED ? TAPS_H - 1 - r : r) * W_STRIDE_H +
          (FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W]
            .bits;
  }
  cp_async_wait<0>();
  __syncthreads();

  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  constexpr int warps = THREADS / 32;
#pragma unroll 1
  for (int item = threadIdx.x / 32; item < PLANES * WARPS_PLANE; item += warps) {
    const int plane = item / WARPS_PLANE;
    if (plane >= planes) break;
    const int channel = first_plane + plane;
    // b of each row of taps: rows k, columns n.
    unsigned b[TAPS_H][tile_w][MATRICES];
#pragma unroll
    for (int r = 0; r < TAPS_H; ++r) {
      const unsigned short* row =
          weights + (plane * TAPS_H + r) * reach - least_reach + offset + per_k * 2 * t + per_n * g;
#pragma unroll
      for (int q = 0; q < tile_w; ++q) {
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) {
          const int at = per_k * 8 * m + per_n * 8 * q;
          b[r][q][m] = row[at] | static_cast<unsigned>(row[at + per_k]) << 16;
        }
      }
    }
#pragma unroll 1
    for (int pair = item % WARPS_PLANE; pair < pairs; pair += WARPS_PLANE) {
      // Matrices 0 and 1 of a load are the two units, 2 and 3 the same of the next 8 columns.
      const int loaded = min_of(2 * pair + lane / 8 % 2, units - 1);
      const unsigned base = shared_address(shared) + (loaded / UNITS * PLANES + plane) * plane_bytes +
                            (loaded % UNITS * 8 + lane % 8) * (rows::step() * PITCH) + lane / 16 * 16;
#pragma unroll 1
      for (int group = 0; group < groups_w; ++group) {
        float sum[tile_h][tile_w][4];
#pragma unroll
        for (int p = 0; p < tile_h; ++p) {
#pragma unroll
          for (int q = 0; q < tile_w; ++q) {
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[p][q][e] = 0;
          }
        }
#pragma unroll
        for (int j = 0; j < span_h; ++j) {
          if (!rows::needed(j)) continue;
#pragma unroll
          for (int m = 0; m < MATRICES; m += 2) {
            unsigned a[4];
            load_matrices(a, base + rows::position(j) * PITCH + (group * step_w + m) * 16);
#pragma unroll
            for (int p = 0; p < tile_h; ++p) {
              const int r = rows::tap(p, j);
              if (r < 0) continue;
#pragma unroll
              for (int q = 0; q < tile_w; ++q) {
                if (m + 1 < MATRICES) {
                  mma_k16<ELEMENT>(sum[p][q], a[0], a[1], a[2], a[3], b[r][q][m],
                                   b[r][q][m + 1 < MATRICES ? m + 1 : m]);
                } else {
                  mma_k8<ELEMENT>(sum[p][q], a[0], a[1], b[r][q][m]);
                }
              }
            }
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int unit = 2 * pair + half;
          const int image = unit / UNITS;
          if (image >= images) continue;
          const long long out_begin =
              (static_cast<long long>(first_image + image) * OUT_C + first_plane) * (OUT_H * OUT_W) +
              static_cast<long long>(out_first) * OUT_W;
          ELEMENT* target = reinterpret_cast<ELEMENT*>(staged + image * out_bytes) + phase<ELEMENT>(out_begin);
#pragma unroll
          for (int p = 0; p < tile_h; ++p) {
            const int row = (strip * 8 * UNITS + unit % UNITS * 8 + g) * tile_h + rows::start() + p;
            if (row < out_first || row >= out_last) continue;
            const int from_row = plane * (OUT_H * OUT_W) + (row - out_first) * OUT_W;
#pragma unroll
            for (int q = 0; q < tile_w; ++q) {
              const int column = (group * tile_w + q) * 8 + 2 * t - STAGGER;
              float v[2] = {sum[p][q][2 * half], sum[p][q][2 * half + 1]};
              const bool first = column >= 0 && column < OUT_W;
              const bool second = pairs_of_columns ? first : column + 1 >= 0 && column + 1 < OUT_W;
              // An infinity or a NaN reaches sums that it doesn't belong to, times zero.
              if (v[0] != v[0] && first) v[0] = output_sum(in, w, first_image + image, channel, 0, row, column);
              if (v[1] != v[1] && second) v[1] = output_sum(in, w, first_image + image, channel, 0, row, column + 1);
              ELEMENT* to = target + from_row + column;
              const long long at = out_begin + from_row + column;
              ELEMENT done[2];
              if (first) done[0] = finished<ELEMENT>(v[0], out, at, channel, epilogue);
              if (second) done[1] = finished<ELEMENT>(v[1], out, at + 1, channel, epilogue);
              if constexpr (pairs_of_columns) {
                if (first) *reinterpret_cast<unsigned*>(to) = done[0].bits | static_cast<unsigned>(done[1].bits) << 16;
              } else {
                if (first) to[0] = done[0];
                if (second) to[1] = done[1];
              }
            }
          }
        }
      }
    }
  }
  __syncthreads();
  for (int image = 0; image < images; ++image) {
    const long long first = (static_cast<long long>(first_image + image) * OUT_C + first_plane) * (OUT_H * OUT_W);
    copy_out<ELEMENT, THREADS>(out, staged + image * out_bytes, first + static_cast<long long>(out_first) * OUT_W,
                               strips == 1 ? first + static_cast<long long>(planes) * (OUT_H * OUT_W)
                                           : first + static_cast<long long>(out_last) * OUT_W);
  }
}
