// fprop of few channels (a network's first layer) on the tensor cores: x of any strides, out channels last. A pixel's
// window, all taps and channels beside each other, is a row of DEPTH terms, which a block gathers into shared memory
// element by element; the filters stay there while the block goes through its tiles of TILE_M pixels.
#include "overlap.cuh"
#include "problem.h"
#include "product.cuh"
#include "ptx.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

struct Sizes {
  long long x_strides[4];  // N, D, H, W
  int m, n;                // pixels and channels of out
  int tiles_m, blocks_n, splits;
  int pixels[3], in[3], stride[3], pad[3];  // D, H, W
};

namespace {

constexpr int threads = 32 * WARPS_M * WARPS_N;
constexpr int warp_m = TILE_M / WARPS_M, warp_n = TILE_N / WARPS_N;
constexpr int pitch = 2 * DEPTH + product_pad;
constexpr int terms = TAPS_D * TAPS_H * TAPS_W * IN_C;
constexpr int slab_bytes = 4 * WARPS_M * WARPS_N * slab_floats<warp_n>;
constexpr int a_bytes = TILE_M * pitch > slab_bytes ? TILE_M * pitch : slab_bytes;  // slabs lie where the windows were
constexpr int reach_d = DILATION_D * (TAPS_D - 1), reach_h = DILATION_H * (TAPS_H - 1),
              reach_w = DILATION_W * (TAPS_W - 1);
constexpr int pairs = (DEPTH / 2 + 31) / 32;  // of terms, a lane's

struct Row {
  long long base;
  int d, h, w;  // of the window's first tap; d below all taps: there is no such pixel
};

__device__ __forceinline__ unsigned load_or_zero(const ELEMENT* p, bool inside) {
  return inside ? load_raw<ELEMENT, 1>(reinterpret_cast<const char*>(p)).bits : 0;
}

}  // namespace

WORK_KERNEL(__launch_bounds__(threads), stem,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue,
             const Sizes sizes),
            (x, w, out, epilogue, sizes)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  __shared__ Row rows[TILE_M];
  const unsigned base = shared_address(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int n0 = static_cast<int>(WORK_BLOCK % sizes.blocks_n) * TILE_N;

  char* const filters = shared + a_bytes;
  for (int e = threadIdx.x; e < TILE_N * DEPTH / 2; e += threads) {
    const int row = e / (DEPTH / 2), k = e % (DEPTH / 2) * 2;
    const ELEMENT* const from = w + static_cast<long long>(n0 + row) * terms + k;
    const bool inside = n0 + row < sizes.n;
    *reinterpret_cast<unsigned*>(filters + row * pitch + 2 * k) =
        load_or_zero(from, inside && k < terms) | load_or_zero(from + 1, inside && k + 1 < terms) << 16;
  }

  // A lane's terms: where they are in x from the window's first tap on, and how far along the dims.
  int offsets[pairs][2];
  int taps[pairs][2];  // d, h and w, a byte each
#pragma unroll
  for (int j = 0; j < pairs; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = 2 * (lane + 32 * j) + half, tap = k / IN_C;
      const int d = tap / (TAPS_H * TAPS_W) * DILATION_D, h = tap / TAPS_W % TAPS_H * DILATION_H,
                s = tap % TAPS_W * DILATION_W;
      taps[j][half] = k < terms ? d << 16 | h << 8 | s : -1;
      offsets[j][half] = k < terms ? d * static_cast<int>(sizes.x_strides[1]) + h * static_cast<int>(sizes.x_strides[2]) +
                                         s * static_cast<int>(sizes.x_strides[3]) + k % IN_C * IN_STRIDE_C
                                   : 0;
    }
  }

#pragma unroll 1
  for (int tile = static_cast<int>(WORK_BLOCK / sizes.blocks_n); tile < sizes.tiles_m; tile += sizes.splits) {
    const int m0 = tile * TILE_M;
    for (int i = threadIdx.x; i < TILE_M; i += threads) {
      const int m = m0 + i, pw = m % sizes.pixels[2], ph = m / sizes.pixels[2] % sizes.pixels[1];
      const int nd = m / sizes.pixels[2] / sizes.pixels[1], n = nd / sizes.pixels[0];
      const int d = nd % sizes.pixels[0] * sizes.stride[0] - sizes.pad[0];
      const int h = ph * sizes.stride[1] - sizes.pad[1], c = pw * sizes.stride[2] - sizes.pad[2];
      rows[i] = {n * sizes.x_strides[0] + d * sizes.x_strides[1] + h * sizes.x_strides[2] + c * sizes.x_strides[3],
                 m < sizes.m ? d : -(1 << 20), h, c};
    }
    __syncthreads();  // and the slabs of the tile before are read
#pragma unroll 4
    for (int i = warp; i < TILE_M; i += WARPS_M * WARPS_N) {
      const Row row = rows[i];
      const ELEMENT* const from = x + row.base;
      const bool whole = row.d >= 0 && row.d + reach_d < sizes.in[0] && row.h >= 0 && row.h + reach_h < sizes.in[1] &&
                         row.w >= 0 && row.w + reach_w < sizes.in[2];  // of all lanes: most windows are
      const auto load = [&](int j, int half) {
        const int tap = taps[j][half];
        if (whole) return load_or_zero(from + offsets[j][half], DEPTH == terms || tap >= 0);
        const bool inside = tap >= 0 && static_cast<unsigned>(row.d + (tap >> 16)) < static_cast<unsigned>(sizes.in[0]) &&
                            static_cast<unsigned>(row.h + (tap >> 8 & 255)) < static_cast<unsigned>(sizes.in[1]) &&
                            static_cast<unsigned>(row.w + (tap & 255)) < static_cast<unsigned>(sizes.in[2]);
        return load_or_zero(inside ? from + offsets[j][half] : x, inside);
      };
#pragma unroll
      for (int j = 0; j < pairs; ++j) {
        if (DEPTH / 2 % 32 != 0 && lane + 32 * j >= DEPTH / 2) break;
        *reinterpret_cast<unsigned*>(shared + i * pitch + 4 * (lane + 32 * j)) = load(j, 0) | load(j, 1) << 16;
      }
    }
    __syncthreads();
    const int own_m = warp / WARPS_N * warp_m, own_n = warp % WARPS_N * warp_n;
    float sums[warp_m / 16][warp_n / 8][4] = {};
    multiply<ELEMENT, warp_m, warp_n, DEPTH, pitch, pitch, false>(sums, base + own_m * pitch,
                                                                  base + a_bytes + own_n * pitch);
    __syncthreads();
    finish_tile<ELEMENT, warp_m, warp_n, OUT_VECTOR>(
        sums, reinterpret_cast<float*>(shared) + warp * slab_floats<warp_n>, out, epilogue,
        [&](int row, int column) {
          const int m = m0 + own_m + row, n = n0 + own_n + column;
          return m < sizes.m && n < sizes.n ? static_cast<long long>(m) * sizes.n + n : -1;
        },
        [&](int column) { return n0 + own_n + column; });
  }
}
