// A matrix product by wgmma, of 16-bit channels-last tensors: out[m][n] = sum of in[m][k] * w[n][k], fprop with filters
// of 1x1. With GATE_ROWS it multiplies in[m][k] by gate[image of m][k] before: the copy engine brings the gates of that
// many images beside each tile of in, and each warp multiplies its rows in registers, from where wgmma takes them. With
// SCATTERS it is dgrad with filters as large as their stride: w is [k][n], the columns n taps and channels,
// and a box of a tap's channels is stored where its pixels lie in out, one a stride from the next. A block goes through tiles of TILE_M x TILE_N of out, one after another. Its last warp has the copy engine
// bring in's tiles of TILE_K terms into a ring of stages, ahead of the tile that is computed, so that memory never
// waits for the epilogue. Each other warpgroup multiplies 64 rows. With RESIDENT the block's rows of w stay in shared
// memory and all of its tiles have the same columns; otherwise w's tiles come beside in's. A warp has 16 rows of the
// result: it puts them into boxes of OUT_COLUMNS in shared memory, which the copy engine stores. What is added to the
// sums, z or out's prior values, came into the same boxes.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "types.cuh"
#define WGMMA_N TILE_N
#include "wgmma.cuh"

struct alignas(64) TensorMap {
  char opaque[128];
};

struct Sizes {
  int m, n;
  int steps;     // tiles of k
  int blocks_n;  // tiles of n
  int tiles;
  int stages;  // of the ring
  // With SCATTERS: channels of out, in's pixels, the filters' taps along D, H, W. With GATE_ROWS an image is one row.
  int channels, height, width, taps[3];
};

namespace {

constexpr int groups = TILE_M / 64, multipliers = 128 * groups;
constexpr int row_bytes = 2 * TILE_K;  // as many as are swizzled together
constexpr int in_bytes = TILE_M * row_bytes, w_bytes = TILE_N * row_bytes;
constexpr int tiles_bytes = in_bytes + (RESIDENT ? 0 : w_bytes);
constexpr bool gated = GATE_ROWS > 0;
constexpr int stage_bytes = tiles_bytes + (GATE_ROWS + 7) / 8 * 8 * row_bytes;  // 8 rows are swizzled together
constexpr bool adds = BETA != 0.0f || GAMMA != 0.0f;
constexpr int boxes = (TILE_N + OUT_COLUMNS - 1) / OUT_COLUMNS, box_row_bytes = 2 * OUT_COLUMNS;
constexpr int box_bytes = 16 * box_row_bytes, warp_bytes = boxes * box_bytes;
constexpr int out_bytes = 4 * groups * warp_bytes;
static_assert(TILE_N % 16 == 0 && TILE_M % 64 == 0 && (!SCATTERS || TILE_N % 64 == 0), "no whole products");

// A tile of w: rows of n, or with SCATTERS of k, 64 columns behind each other.
__device__ __forceinline__ void load_w(unsigned to, const TensorMap* w, unsigned barrier, int step, int n0) {
  if constexpr (!SCATTERS) {
    tma_load(to, w, barrier, step * TILE_K, n0);
  } else {
#pragma unroll
    for (int n = 0; n < TILE_N; n += 64) tma_load(to + n * row_bytes, w, barrier, n0 + n, step * TILE_K);
  }
}

// Calls each(bytes, c, tap, pixel, row) for the boxes of BOX_PIXELS pixels in out that those of 16 rows from m on and
// OUT_COLUMNS columns from n on are, `bytes` behind the first. Beyond the last column they lie outside of out.
template <class Each>
__device__ __forceinline__ void scattered(int m, int n, const Sizes& sizes, const Each& each) {
  const int tap = n / sizes.channels, c = n % sizes.channels;
  const int tap_w = tap % sizes.taps[2], tap_h = tap / sizes.taps[2] % sizes.taps[1];
  const int tap_d = tap / sizes.taps[2] / sizes.taps[1];
#pragma unroll
  for (int i = 0; i < 16; i += BOX_PIXELS) {
    const int row = (m + i) / sizes.width, depth = row / sizes.height, h = row % sizes.height;
    const int pixel = n < sizes.n ? (m + i) % sizes.width : sizes.width;
    each(i * box_row_bytes, c, tap_w, pixel,
         ((depth * sizes.taps[0] + tap_d) * sizes.height + h) * sizes.taps[1] + tap_h);
  }
}

// Where ldmatrix finds a row of 16 x k elements: lane l has the first or second 8 of 16, as l / 16 says.
struct SwizzledRow {
  unsigned first, unit;
  __device__ __forceinline__ SwizzledRow(int row, int lane)
      : first(row * row_bytes), unit((lane / 16 ^ row * row_bytes / 128 % (row_bytes / 16)) * 16) {}
  __device__ __forceinline__ unsigned at(int k) const { return first + (unit ^ k / 16 * 32); }
};

__device__ __forceinline__ unsigned multiply(unsigned a, unsigned b) {
  return same_type<ELEMENT, bf16>::value ? mul_bf16x2(a, b) : mul_f16x2(a, b);
}

// A stage of the ring, and the parity of the phase that its barriers are in.
struct Place {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void next(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

}  // namespace

#if GATE_ROWS > 0
#define GATE_PARAMETER const __grid_constant__ TensorMap gate,
#define GATE_MAP &gate
#else
#define GATE_PARAMETER
#define GATE_MAP nullptr
#endif

extern "C" __global__ void __launch_bounds__(multipliers + 32, MIN_BLOCKS)
    gemm(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap w,
         const __grid_constant__ TensorMap out, const __grid_constant__ TensorMap added,
         GATE_PARAMETER const EpilogueArgs args, const Sizes sizes) {
  extern __shared__ __align__(16) char shared[];
  const unsigned barriers = shared_address(shared);
  const unsigned results = (barriers + 8 * (2 * sizes.stages + 1 + 4 * groups) + 1023) / 1024 * 1024;
  const unsigned ring = (results + out_bytes + 1023) / 1024 * 1024;
  const unsigned resident = ring + sizes.stages * stage_bytes;
  float* const biases =
      reinterpret_cast<float*>(shared + (resident - barriers) + (RESIDENT ? sizes.steps * w_bytes : 0));
  const auto full = [&](int stage) { return barriers + 8 * stage; };
  const auto empty = [&](int stage) { return barriers + 8 * (sizes.stages + stage); };
  const unsigned w_here = barriers + 8 * 2 * sizes.stages;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const unsigned added_here = w_here + 8 * (1 + warp);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < sizes.stages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), gated ? 4 * groups : groups);
    }
    mbarrier_init(w_here, 1);
    for (int i = 0; adds && i < 4 * groups; ++i) mbarrier_init(w_here + 8 * (1 + i), 1);
    fence_mbarrier_init();
  }
  overlap();
  const int first = RESIDENT ? static_cast<int>(blockIdx.x) % sizes.blocks_n * TILE_N : 0;  // whose bias is biases[0]
  if constexpr (BIAS) {
    const int count = RESIDENT ? TILE_N : sizes.blocks_n * TILE_N;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += multipliers + 32) {
      const int n = first + i;
      biases[i] = n < sizes.n ? bias_of<ELEMENT>(args, SCATTERS ? n % sizes.channels : n) : 0.0f;
    }
  }
  __syncthreads();

  if (warp == 4 * groups) {
    if (RESIDENT && lane == 0) {
      mbarrier_arrive_expect_tx(w_here, sizes.steps * w_bytes);
      for (int step = 0; step < sizes.steps; ++step) load_w(resident + step * w_bytes, &w, w_here, step, first);
    }
    Place at;
    for (int tile = static_cast<int>(blockIdx.x); tile < sizes.tiles; tile += static_cast<int>(gridDim.x)) {
      const int m0 = tile / sizes.blocks_n * TILE_M, n0 = tile % sizes.blocks_n * TILE_N;
      for (int step = 0; step < sizes.steps; ++step, at.next(sizes.stages)) {
        mbarrier_wait(empty(at.stage), at.parity ^ 1);
        if (lane != 0) continue;
        mbarrier_arrive_expect_tx(full(at.stage), tiles_bytes + GATE_ROWS * row_bytes);
        const unsigned to = ring + at.stage * stage_bytes;
        tma_load(to, &in, full(at.stage), step * TILE_K, m0);
        if constexpr (!RESIDENT) load_w(to + in_bytes, &w, full(at.stage), step, n0);
        if constexpr (gated) tma_load(to + tiles_bytes, GATE_MAP, full(at.stage), step * TILE_K, m0 / sizes.width);
      }
    }
    return;
  }

  const unsigned own = results + warp * warp_bytes;
  // Lane l addresses row l % 16 of a box and, of two neighbouring 8 columns, those of l / 16.
  const unsigned row_at = lane % 16 * box_row_bytes;
  const unsigned unit = (lane / 16 ^ row_at / 128 % (box_row_bytes / 16)) * 16;
  if constexpr (RESIDENT) mbarrier_wait(w_here, 0);
  Place at;
  int turn = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < sizes.tiles; tile += static_cast<int>(gridDim.x), turn ^= 1) {
    const int n0 = tile % sizes.blocks_n * TILE_N;
    const int m0 = tile / sizes.blocks_n * TILE_M + 16 * warp;
    if constexpr (adds) {
      if (lane == 0) {
        cp_async_bulk_wait_read<0>();
        mbarrier_arrive_expect_tx(added_here, warp_bytes);
        for (int box = 0; box < boxes; ++box) {
          const unsigned to = own + box * box_bytes;
          if constexpr (SCATTERS) {
            scattered(m0, n0 + box * OUT_COLUMNS, sizes, [&](int bytes, int c, int tap, int pixel, int row) {
              tma_load(to + bytes, &added, added_here, c, tap, pixel, row);
            });
          } else {
            tma_load(to, &added, added_here, n0 + box * OUT_COLUMNS, m0);
          }
        }
      }
    }
    float sums[TILE_N / 2];
    if constexpr (gated) {
      const int first_image = (m0 - 16 * warp) / sizes.width;
      const SwizzledRow rows(16 * warp + lane % 16, lane), gates((m0 + lane % 16) / sizes.width - first_image, lane);
      for (int step = 0; step < sizes.steps; ++step, at.next(sizes.stages)) {
        mbarrier_wait(full(at.stage), at.parity);
        const unsigned stage = ring + at.stage * stage_bytes;
        unsigned in_rows[TILE_K / 16][4];
#pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
          unsigned beside[4];
          ldmatrix(in_rows[k / 16], stage + rows.at(k));
          ldmatrix(beside, stage + tiles_bytes + gates.at(k));
#pragma unroll
          for (int i = 0; i < 4; ++i) in_rows[k / 16][i] = multiply(in_rows[k / 16][i], beside[i]);
        }
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
          const unsigned right = RESIDENT ? resident + step * w_bytes : stage + in_bytes;
          const auto columns = wgmma_descriptor<row_bytes>(right + 2 * k, 0, 8 * row_bytes);
          wgmma<ELEMENT>(sums, in_rows[k / 16], columns, step > 0 || k > 0);
        }
        wgmma_commit();
        wgmma_wait<0>(sums);
        wgmma_keep(in_rows);
        if (lane == 0) mbarrier_arrive(empty(at.stage));
      }
    } else {
      int last = 0;
      for (int step = 0; step < sizes.steps; ++step, at.next(sizes.stages)) {
        mbarrier_wait(full(at.stage), at.parity);
        const unsigned left = ring + at.stage * stage_bytes + warp / 4 * 64 * row_bytes;
        const unsigned right = RESIDENT ? resident + step * w_bytes : ring + at.stage * stage_bytes + in_bytes;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < row_bytes; k += 32) {
          const auto rows = wgmma_descriptor<row_bytes>(left + k, 0, 8 * row_bytes);
          if constexpr (SCATTERS) {
            const auto columns = wgmma_descriptor<128>(right + k / 2 * 128, TILE_K * 128, 8 * 128);
            wgmma<ELEMENT, false, true>(sums, rows, columns, step > 0 || k > 0);
          } else {
            const auto columns = wgmma_descriptor<row_bytes>(right + k, 0, 8 * row_bytes);
            wgmma<ELEMENT>(sums, rows, columns, step > 0 || k > 0);
          }
        }
        wgmma_commit();
        if (step > 0) {
          wgmma_wait<1>(sums);
          if (threadIdx.x % 128 == 0) mbarrier_arrive(empty(last));
        }
        last = at.stage;
      }
      wgmma_wait<0>(sums);
      if (threadIdx.x % 128 == 0) mbarrier_arrive(empty(last));
    }

    if constexpr (adds) {
      mbarrier_wait(added_here, turn);
    } else {
      if (lane == 0) cp_async_bulk_wait_read<0>();
      __syncwarp();
    }
#pragma unroll
    for (int box = 0; box < boxes; ++box) {
#pragma unroll
      for (int pair = 0; pair < OUT_COLUMNS / 16; ++pair) {
        if (box * OUT_COLUMNS + 16 * pair >= TILE_N) break;
        const unsigned address = own + box * box_bytes + row_at + (unit ^ 32 * pair);
        unsigned words[4], beside[4];
        if constexpr (adds) ldmatrix(beside, address);
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // of 16 columns
          const int column = box * OUT_COLUMNS + 16 * pair + 8 * half + 2 * (lane % 4);
          float bias[2] = {};
          if constexpr (BIAS) {
            const float2 read = *reinterpret_cast<const float2*>(biases + (RESIDENT ? 0 : n0) + column);
            bias[0] = read.x, bias[1] = read.y;
          }
#pragma unroll
          for (int lower = 0; lower < 2; ++lower) {  // of 16 rows
            const int i = 8 * (box * OUT_COLUMNS / 16 + pair) + 4 * half + 2 * lower;
            float v[2] = {sums[i], sums[i + 1]};
            Beside<ELEMENT, 2> both;
            both.prior = both.z = beside[2 * half + lower];
            const int n = n0 + column < sizes.n ? n0 + column : 0;
            epilogue<ELEMENT, 2>(v, both, bias, SCATTERS ? n % sizes.channels : n, args);
            words[2 * half + lower] = pack_halves<ELEMENT>(v[0], v[1]);
          }
        }
        stmatrix(address, words);
      }
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) {
        const unsigned from = own + box * box_bytes;
        if constexpr (SCATTERS) {
          scattered(m0, n0 + box * OUT_COLUMNS, sizes, [&](int bytes, int c, int tap, int pixel, int row) {
            tma_store(&out, from + bytes, c, tap, pixel, row);
          });
        } else {
          tma_store(&out, from, n0 + box * OUT_COLUMNS, m0);
        }
        cp_async_bulk_commit();
      }
    }
  }
  if (lane == 0) cp_async_bulk_wait<0>();
}
