// fprop of volumes with few channels, filters of 3 x TAPS_H x TAPS_W, stride 1, channels last, by wgmma. A warpgroup
// has 8 x 8 pixels of a plane and a block walks through planes. Each plane of x, with what the filters reach beside the
// block's pixels, is multiplied by the filters' three planes side by side, so that a product has 96 columns: of 32 it
// would wait for shared memory. What the three give belongs to three planes of out, the first of which is then
// complete. In shared memory the pixels of 8 channels lie together, 16 bytes each: 8 neighbours in a row are a core
// matrix of wgmma wherever they begin, and another tap is another address.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "quad.cuh"
#include "types.cuh"
#define WGMMA_N 96  // columns, below
#include "wgmma.cuh"
#include "work_blocks.cuh"

struct Sizes {
  int channels, in[3], out[3], pad[3];        // of out; D, H, W
  int blocks_n, tiles_w, tiles_h, runs, run;  // run: planes of out that a block walks through
};

namespace {

constexpr int threads = 128 * GROUPS_H * GROUPS_W;
constexpr int block_n = 32, planes = 3, columns = planes * block_n;
constexpr int halo_h = 8 * GROUPS_H + TAPS_H - 1, halo_w = 8 * GROUPS_W + TAPS_W - 1;
constexpr int units = IN_C / 8;
constexpr int skew = 128 / units;  // the units of neighbouring pixels go to different banks
constexpr int unit_bytes = (16 * halo_h * halo_w + 127 - skew) / 128 * 128 + skew;
constexpr int plane_bytes = units * unit_bytes, filter_unit_bytes = 16 * columns;
constexpr int filters_bytes = TAPS_H * TAPS_W * units * filter_unit_bytes;
constexpr int pieces =
    (halo_h * halo_w * units + threads - 1) / threads;  // of 16 bytes that a thread copies of a plane
static_assert(units == 2 || units == 4 || units == 8, "no such skew");

}  // namespace

WORK_KERNEL(__launch_bounds__(threads, MIN_BLOCKS), volume,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ w, ELEMENT* out,
             const EpilogueArgs epilogue_args, const Sizes sizes),
            (x, w, out, epilogue_args, sizes)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const unsigned filters = shared_address(shared), ring = filters + filters_bytes;
  int block = static_cast<int>(WORK_BLOCK);
  const int n0 = block % sizes.blocks_n * block_n;
  block /= sizes.blocks_n;
  const int w0 = block % sizes.tiles_w * 8 * GROUPS_W;
  block /= sizes.tiles_w;
  const int h0 = block % sizes.tiles_h * 8 * GROUPS_H;
  block /= sizes.tiles_h;
  const int d0 = block % sizes.runs * sizes.run;
  const long long image = block / sizes.runs;

  for (int i = threadIdx.x; i < TAPS_H * TAPS_W * columns * units; i += threads) {
    const int unit = i % units, column = i / units % columns, tap = i / units / columns;
    const int k = n0 + column % block_n, depth = planes - 1 - column / block_n;
    const long long from = ((static_cast<long long>(k) * planes + depth) * (TAPS_H * TAPS_W) + tap) * IN_C + 8 * unit;
    const bool inside = k < sizes.channels;
    cp_async<16>(filters + (tap * units + unit) * filter_unit_bytes + 16 * column, w + (inside ? from : 0),
                 inside ? 16 : 0);
  }

  int from[pieces];  // in a plane of x; -1: beside it
  unsigned to[pieces];
#pragma unroll
  for (int i = 0; i < pieces; ++i) {
    const int piece = i * threads + static_cast<int>(threadIdx.x), unit = piece % units, pixel = piece / units;
    const int row = h0 - sizes.pad[1] + pixel / halo_w, column = w0 - sizes.pad[2] + pixel % halo_w;
    const bool inside = row >= 0 && row < sizes.in[1] && column >= 0 && column < sizes.in[2];
    from[i] = inside ? (row * sizes.in[2] + column) * IN_C + 8 * unit : -1;
    to[i] = unit * unit_bytes + 16 * pixel;
  }
  const int steps = (sizes.run < sizes.out[0] - d0 ? sizes.run : sizes.out[0] - d0) + planes - 1;
  const auto depth_of = [&](int step) { return d0 + step - sizes.pad[0]; };  // in x
  const auto is_plane = [&](int step) { return step < steps && depth_of(step) >= 0 && depth_of(step) < sizes.in[0]; };
  const auto start = [&](int step) {
    if (is_plane(step)) {
      const ELEMENT* const plane = x + (image * sizes.in[0] + depth_of(step)) * sizes.in[1] * sizes.in[2] * IN_C;
      const unsigned place = ring + step % STAGES * plane_bytes;
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        if (i * threads + static_cast<int>(threadIdx.x) >= halo_h * halo_w * units) break;
        cp_async<16>(place + to[i], plane + (from[i] < 0 ? 0 : from[i]), from[i] < 0 ? 0 : 16);
      }
    }
    cp_async_commit();
  };
#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) start(step);

  const int lane = threadIdx.x % 32, group = threadIdx.x / 128;
  const int group_h = 8 * (group / GROUPS_W), group_w = 8 * (group % GROUPS_W);
  const int row = h0 + group_h + 2 * (threadIdx.x / 32 % 4), column = w0 + group_w + lane / 4;
  float sums[columns / 2] = {};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<STAGES - 2>();
    fence_proxy_async();
    __syncthreads();
    start(step + STAGES - 1);
    if (is_plane(step)) {
      const unsigned plane = ring + step % STAGES * plane_bytes + 16 * (group_h * halo_w + group_w);
      wgmma_fence();
#pragma unroll
      for (int tap = 0; tap < TAPS_H * TAPS_W; ++tap) {
#pragma unroll
        for (int unit = 0; unit < units; unit += 2) {
          const unsigned pixels = plane + unit * unit_bytes + 16 * (tap / TAPS_W * halo_w + tap % TAPS_W);
          wgmma<ELEMENT>(
              sums, wgmma_descriptor<0>(pixels, unit_bytes, 16 * halo_w),
              wgmma_descriptor<0>(filters + (tap * units + unit) * filter_unit_bytes, filter_unit_bytes, 128), true);
        }
      }
      wgmma_commit();
      wgmma_wait<0>(sums);
    }
    const int depth = d0 + step - (planes - 1);
    if (depth >= d0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool inside = row + half < sizes.out[1] && column < sizes.out[2];
        const long long at =
            (((image * sizes.out[0] + depth) * sizes.out[1] + row + half) * sizes.out[2] + column) * sizes.channels +
            n0;
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float v[2] = {sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]};
          const int channel = 8 * j + 2 * (lane % 4);
          if (inside && n0 + channel < sizes.channels)
            epilogue<ELEMENT, 2>(v, out, at + channel, n0 + channel, epilogue_args);
          words[j] = pack_halves<ELEMENT>(v[0], v[1]);
        }
        transpose_quad(words);
        const int channel = 8 * (lane % 4);
        if (inside && n0 + channel < sizes.channels) {
          *reinterpret_cast<uint4*>(out + at + channel) = make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = i + block_n / 2 < columns / 2 ? sums[i + block_n / 2] : 0.0f;
  }
}
