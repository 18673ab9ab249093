// fprop as a product of matrices whose rows are windows, by wgmma, for few pixels (a network's layers with one image). A
// cluster of blocks has a tile of TILE_M pixels x TILE_N channels of out and shares the terms, in slices of SLICE
// channels of a tap. A block's last warp has the copy engine bring the slices into a ring; where a filter has several
// taps, it finds the pixels of the windows by itself (im2col). Each other warpgroup multiplies 64 rows and sends its sums
// of some rows to the block that adds these up, in the order of the terms, and stores them.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "quad.cuh"
#include "types.cuh"
#define WGMMA_N TILE_N
#include "wgmma.cuh"

struct alignas(64) TensorMap {
  char opaque[128];
};

struct Sizes {
  int m, n;                   // pixels and channels of out
  int slices, slices_of_tap;  // of the terms
  int steps;                  // slices that a block has
  int tiles, blocks_n;        // of out; along the channels
  int splits, log_rows;       // blocks of a cluster; each finishes 2^log_rows rows of a tile
  int stages;                 // of the ring
  int taps[3], pixels[3], stride[3], dilation[3], pad[3];
};

namespace {

constexpr int groups = TILE_M / 64, multipliers = 128 * groups;
constexpr int row_bytes = 2 * SLICE;  // as many as are swizzled together
constexpr int in_bytes = TILE_M * row_bytes, stage_bytes = in_bytes + TILE_N * row_bytes;
constexpr int sums_pitch = TILE_N + 8;  // floats
constexpr int columns = TILE_N / OUT_VECTOR, items = TILE_M * columns / multipliers;
// A block with all terms of a tile stores from registers.
constexpr bool alone = !SHARED_TERMS && OUT_VECTOR == 8;

// a / b of numbers below 2^18. The code of an exact division is fetched longer than a slice.
__device__ __forceinline__ int quotient(int a, int b) {
  return static_cast<int>((static_cast<float>(a) + 0.5f) * rcp_approx_ftz(static_cast<float>(b)));
}

// Slices of the terms, one after another.
struct Slice {
  int tap, w, h, d;  // of a window
  int channel, left;

  __device__ __forceinline__ Slice(int number, const Sizes& sizes) {
    tap = quotient(number, sizes.slices_of_tap);
    channel = (number - tap * sizes.slices_of_tap) * SLICE;
    left = (tap + 1) * sizes.slices_of_tap - number;
    h = quotient(tap, sizes.taps[2]), w = tap - h * sizes.taps[2];
    d = quotient(h, sizes.taps[1]), h -= d * sizes.taps[1];
  }
  __device__ __forceinline__ void next(const Sizes& sizes) {
    channel += SLICE;
    if (--left > 0) return;
    ++tap, channel = 0, left = sizes.slices_of_tap;
    if (++w < sizes.taps[2]) return;
    w = 0;
    if (++h == sizes.taps[1]) ++d, h = 0;
  }
};

// The first window of a tile, by the place of its first pixel in x; it may lie outside.
struct Window {
  int m, w, h, d, image;

  __device__ __forceinline__ Window(int m0, const Sizes& sizes) {
    m = m0;
    if constexpr (!WINDOWS) return;
    const unsigned line = static_cast<unsigned>(m) / sizes.pixels[2];
    w = static_cast<int>(m - line * sizes.pixels[2]) * sizes.stride[2] - sizes.pad[2];
    const unsigned plane = SPATIAL > 1 ? line / sizes.pixels[1] : line;
    h = static_cast<int>(line - plane * sizes.pixels[1]) * sizes.stride[1] - sizes.pad[1];
    const unsigned volume = SPATIAL > 2 ? plane / sizes.pixels[0] : plane;
    d = static_cast<int>(plane - volume * sizes.pixels[0]) * sizes.stride[0] - sizes.pad[0];
    image = static_cast<int>(volume);
  }
  __device__ __forceinline__ void load(unsigned to, const TensorMap& in, unsigned barrier, const Slice& slice,
                                       const Sizes& sizes) const {
    const auto tap_w = static_cast<unsigned short>(slice.w * sizes.dilation[2]);
    const auto tap_h = static_cast<unsigned short>(slice.h * sizes.dilation[1]);
    const auto tap_d = static_cast<unsigned short>(slice.d * sizes.dilation[0]);
    if constexpr (!WINDOWS) {
      tma_load(to, &in, barrier, slice.channel, m);
    } else if constexpr (SPATIAL == 1) {
      tma_load_im2col(to, &in, barrier, slice.channel, w, image, tap_w);
    } else if constexpr (SPATIAL == 2) {
      tma_load_im2col(to, &in, barrier, slice.channel, w, h, image, tap_w, tap_h);
    } else {
      tma_load_im2col(to, &in, barrier, slice.channel, w, h, d, image, tap_w, tap_h, tap_d);
    }
  }
};

// The tiles that a cluster computes: the one that it was launched for, or, where ANY_GRID, each so-many-th.
struct Tiles {
  int tile, m0, n0, apart;

  __device__ __forceinline__ explicit Tiles(const Sizes& sizes) {
    if constexpr (ANY_GRID) {
      tile = static_cast<int>(blockIdx.x) / sizes.splits, apart = static_cast<int>(gridDim.x) / sizes.splits;
      find(sizes);
    } else {
      tile = 0, apart = sizes.tiles;
      n0 = static_cast<int>(blockIdx.y) * TILE_N, m0 = static_cast<int>(blockIdx.z) * TILE_M;
    }
  }
  __device__ __forceinline__ void find(const Sizes& sizes) {
    m0 = tile / sizes.blocks_n * TILE_M, n0 = tile % sizes.blocks_n * TILE_N;
  }
  __device__ __forceinline__ void next(const Sizes& sizes) {
    tile += apart;
    if constexpr (ANY_GRID) find(sizes);
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(multipliers + 32)
    igemm(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap w, ELEMENT* out,
          const EpilogueArgs args, const Sizes sizes) {
  extern __shared__ __align__(16) char shared[];
  const unsigned barriers = shared_address(shared), ring = (barriers + 16 * sizes.stages + 1023) / 1024 * 1024;
  const unsigned parts = ring + sizes.stages * stage_bytes;
  const auto full = [&](int stage) { return barriers + 8 * stage; };
  const auto empty = [&](int stage) { return barriers + 8 * (sizes.stages + stage); };
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int rank = static_cast<int>(cluster_rank()), first = rank * sizes.steps;
  Tiles at_tile(sizes);
  const int steps = sizes.slices - first < sizes.steps ? sizes.slices - first : sizes.steps;  // the last may have none
  if (thread == 0) {
#pragma unroll 1
    for (int stage = 0; stage < sizes.stages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), groups);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  if (warp == 4 * groups) {
    const Slice begin(first, sizes);
    if (lane == 0) {
      prefetch_tensormap(&in);
      prefetch_tensormap(&w);
    }
    wait_for_previous();
    int stage = 0, parity = 1;
#pragma unroll 1
    for (; at_tile.tile < sizes.tiles; at_tile.next(sizes)) {
      if constexpr (!alone) cluster_arrive();
      const Window window(at_tile.m0, sizes);
      Slice slice = begin;
#pragma unroll 1
      for (int step = 0; step < steps; ++step, slice.next(sizes)) {
        mbarrier_wait(empty(stage), parity);
        if (lane == 0) {
          mbarrier_arrive_expect_tx(full(stage), stage_bytes);
          const unsigned to = ring + stage * stage_bytes;
          tma_load(to + in_bytes, &w, full(stage), slice.channel, slice.tap, at_tile.n0);
          window.load(to, in, full(stage), slice, sizes);
        }
        if (++stage == sizes.stages) stage = 0, parity ^= 1;
      }
      if constexpr (!alone) {
        cluster_wait();
        cluster_arrive();
        cluster_wait();
      }
    }
    return;
  }

  overlap();
  int stage = 0, parity = 0;
#pragma unroll 1
  for (; at_tile.tile < sizes.tiles; at_tile.next(sizes)) {
    if constexpr (!alone) cluster_arrive();
    const int n0 = at_tile.n0, m0 = at_tile.m0;
    // What is read besides the sums is on its way while they are computed. A thread finishes OUT_VECTOR channels of a
    // row at a time: alone, those of its quad's rows, in turn with the quad's others.
    const int own_rows = 1 << sizes.log_rows;
    const auto row_of = [&](int i) {
      return alone ? 16 * warp + 8 * (i / (items / 2)) + lane / 4 : (i * multipliers + thread) / columns;
    };
    const auto column_of = [&](int i) {
      return alone ? 32 * (i % (items / 2)) + 8 * (lane % 4) : (i * multipliers + thread) % columns * OUT_VECTOR;
    };
    constexpr bool one_column = alone ? items == 2 : multipliers % columns == 0;
    constexpr int biases = alone ? items / 2 : one_column ? 1 : items;
    float bias[biases][OUT_VECTOR];
    long long at[items];
    Beside<ELEMENT, OUT_VECTOR> beside[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const int row = row_of(i), n = n0 + column_of(i), m = m0 + (alone ? 0 : rank * own_rows) + row;
      at[i] = (alone || row < own_rows) && m < sizes.m && n < sizes.n ? static_cast<long long>(m) * sizes.n + n : -1;
      if (at[i] >= 0) beside[i].load(out, at[i], args);
      if constexpr (BIAS) {
        if (i < biases && n < sizes.n) load_bias<ELEMENT, OUT_VECTOR>(bias[i], n, args);
      }
    }

    float sums[TILE_N / 2];
#pragma unroll
    for (int i = 0; i < TILE_N / 2; ++i) sums[i] = 0.0f;
    int last = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      mbarrier_wait(full(stage), parity);
      const unsigned left = ring + stage * stage_bytes + warp / 4 * 64 * row_bytes;
      const unsigned right = ring + stage * stage_bytes + in_bytes;
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < row_bytes; k += 32) {
        wgmma<ELEMENT>(sums, wgmma_descriptor<row_bytes>(left + k, 0, 8 * row_bytes),
                       wgmma_descriptor<row_bytes>(right + k, 0, 8 * row_bytes), true);
      }
      wgmma_commit();
      if (step > 0) {
        wgmma_wait<1>(sums);
        if (thread % 128 == 0) mbarrier_arrive(empty(last));
      }
      last = stage;
      if (++stage == sizes.stages) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>(sums);
    if (steps > 0 && thread % 128 == 0) mbarrier_arrive(empty(last));

    if constexpr (alone) {
#pragma unroll
      for (int i = 0; i < items; ++i) {
        const int half = i / (items / 2), first = i % (items / 2) * 16 + 2 * half;
        unsigned even[4], odd[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          even[j] = __float_as_uint(sums[first + 4 * j]), odd[j] = __float_as_uint(sums[first + 4 * j + 1]);
        }
        transpose_quad(even);
        transpose_quad(odd);
        if (at[i] < 0) continue;
        float v[OUT_VECTOR];
#pragma unroll
        for (int j = 0; j < OUT_VECTOR / 2; ++j) {
          v[2 * j] = __uint_as_float(even[j]), v[2 * j + 1] = __uint_as_float(odd[j]);
        }
        epilogue<ELEMENT, OUT_VECTOR>(v, beside[i], bias[i % biases], n0 + column_of(i), args);
        store_raw<ELEMENT, OUT_VECTOR>(out + at[i], pack<ELEMENT, OUT_VECTOR>(v));
      }
    } else {
      cluster_wait();  // all blocks have begun, and have read the sums of the tile before
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = 16 * warp + 8 * half + lane / 4, owner = m >> sizes.log_rows;
        const unsigned to =
            mapa(parts + 4 * ((rank * own_rows + m - owner * own_rows) * sums_pitch + lane % 4 * 2), owner);
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j) {
          store_shared_cluster(to + 32 * j, make_float2(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]));
        }
      }
      cluster_arrive();
      cluster_wait();

#pragma unroll
      for (int i = 0; i < items; ++i) {
        if (at[i] < 0) continue;
        const float* from =
            reinterpret_cast<const float*>(shared + (parts - barriers)) + row_of(i) * sums_pitch + column_of(i);
        float v[OUT_VECTOR] = {};
#pragma unroll 1
        for (int split = 0; split < sizes.splits; ++split) {
#pragma unroll
          for (int e = 0; e < OUT_VECTOR; ++e) v[e] += from[split * own_rows * sums_pitch + e];
        }
        epilogue<ELEMENT, OUT_VECTOR>(v, beside[i], bias[one_column ? 0 : i], n0 + column_of(i), args);
        store_raw<ELEMENT, OUT_VECTOR>(out + at[i], pack<ELEMENT, OUT_VECTOR>(v));
      }
    }
  }
}
