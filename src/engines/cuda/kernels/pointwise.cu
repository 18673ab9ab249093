// A matrix product on the tensor cores, of channels-last tensors: out[m][n] = sum of in[m][k] * w[k][n]. fprop with
// filters of 1x1 is one (w[n][k] in memory), and so is dgrad with filters as large as their stride, whose
// columns n are taps and channels and lie where their tap belongs (SCATTERS). A block has TILE_M x TILE_N of out and
// goes through k in tiles of TILE_K, the next of which are on their way into shared memory meanwhile.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "product.cuh"
#include "ptx.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

// The pixels of rows, and how they lie in the larger tensor: in's where fprop has a stride, out's where dgrad has one.
struct Sizes {
  int m, n, k;
  int steps;     // tiles of k
  int blocks_n;  // tiles of n
  int channels;  // of out
  int pixels[3], stride[3], large[3];
};

namespace {

constexpr int threads = 32 * WARPS_M * WARPS_N, size = static_cast<int>(sizeof(ELEMENT));
constexpr int warp_m = TILE_M / WARPS_M, warp_n = TILE_N / WARPS_N;
constexpr int a_pitch = size * TILE_K + product_pad;
constexpr int b_rows = SCATTERS ? TILE_K : TILE_N, b_columns = SCATTERS ? TILE_N : TILE_K;
constexpr int b_pitch = size * b_columns + (SCATTERS && size == 4 ? product_pad_of_terms : product_pad);
constexpr int a_bytes = TILE_M * a_pitch, stage_bytes = a_bytes + b_rows * b_pitch;
constexpr int ahead = STAGES > 1 ? STAGES - 1 : 1;
constexpr int slabs_bytes = 4 * WARPS_M * WARPS_N * slab_floats<warp_n>;
constexpr int biases_at = STAGES * stage_bytes > slabs_bytes ? STAGES * stage_bytes : slabs_bytes;
// Whether registers hold what is added to a thread's outputs while these are computed.
constexpr int besides = warp_m * warp_n / 32 * ((BETA != 0.0f) + (GAMMA != 0.0f)) / 2;
constexpr bool early =
    size == 2 && OUT_VECTOR == 8 && warp_m * warp_n / 32 + besides + 72 <= 65536 / (MIN_BLOCKS * threads);

// Where the pixel of row m begins in the tensor with the stride, in elements of `channels` a pixel.
__device__ __forceinline__ long long strided(int m, int channels, const Sizes& sizes) {
  const int w = m % sizes.pixels[2], h = m / sizes.pixels[2] % sizes.pixels[1];
  const int nd = m / sizes.pixels[2] / sizes.pixels[1];  // images follow one another as their planes do
  const int n = nd / sizes.pixels[0], d = nd % sizes.pixels[0];
  const long long rows = (static_cast<long long>(n) * sizes.large[0] + d * sizes.stride[0]) * sizes.large[1] + h * sizes.stride[1];
  return (rows * sizes.large[2] + w * sizes.stride[2]) * channels;
}

// From row m and column n on, in elements of out.
__device__ __forceinline__ long long place(int m, int n, const Sizes& sizes) {
  if constexpr (!SCATTERS) return static_cast<long long>(m) * sizes.n + n;
  const int tap = n / sizes.channels, c = n % sizes.channels;
  const int w = tap % sizes.stride[2], h = tap / sizes.stride[2] % sizes.stride[1];
  const int d = tap / sizes.stride[2] / sizes.stride[1];
  const long long pixel = (static_cast<long long>(d) * sizes.large[1] + h) * sizes.large[2] + w;
  return strided(m, sizes.channels, sizes) + pixel * sizes.channels + c;
}

// Where in's row begins; any, where there is none.
__device__ __forceinline__ const ELEMENT* row_of(const ELEMENT* in, int m, const Sizes& sizes) {
  if (m >= sizes.m) return in;
  return in + (STRIDED ? strided(m, sizes.k, sizes) : static_cast<long long>(m) * sizes.k);
}

// Sums of floats from row m0 and column n0 on, of which one is no number: they are computed anew by multiply-adds. An
// infinity is one no more when it is split.
__device__ __forceinline__ void mend(float (&sums)[warp_m / 16][warp_n / 8][4], const ELEMENT* in, const ELEMENT* w,
                                     int m0, int n0, const Sizes& sizes) {
  bool right = true;
#pragma unroll
  for (int i = 0; i < warp_m / 16 * (warp_n / 8) * 4; ++i) {
    const float sum = sums[i / 4 / (warp_n / 8)][i / 4 % (warp_n / 8)][i % 4];
    right = right && sum == sum;
  }
  if (right) return;
  const int m = m0 + threadIdx.x % 32 / 4, n = n0 + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < warp_m / 8; ++i) {
    const ELEMENT* const row = row_of(in, m + 8 * i, sizes);
#pragma unroll
    for (int j = 0; j < warp_n / 4; ++j) {
      const int column = n + j / 2 * 8 + j % 2;
      const ELEMENT* const filter = w + static_cast<long long>(column < sizes.n ? column : 0) * (SCATTERS ? 1 : sizes.k);
      float sum = 0;
#pragma unroll 1
      for (long long k = 0; k < sizes.k; ++k) {
        sum = fmaf(to_float(row[k]), to_float(filter[SCATTERS ? k * sizes.n : k]), sum);
      }
      sums[i / 2][j / 2][i % 2 * 2 + j % 2] = sum;
    }
  }
}

// A tile of w: rows of n (k beside each other), or of k.
__device__ __forceinline__ void copy_w(unsigned to, const ELEMENT* w, int n0, int k0, const Sizes& sizes) {
  constexpr int units = b_columns / B_VECTOR;
  const int rows = SCATTERS ? sizes.k - k0 : sizes.n - n0, columns = SCATTERS ? sizes.n : sizes.k;
  const int row0 = SCATTERS ? k0 : n0, column0 = SCATTERS ? n0 : k0;
#pragma unroll
  for (int i = 0; i < (b_rows * units + threads - 1) / threads; ++i) {
    const int at = i * threads + threadIdx.x;
    if (b_rows * units % threads != 0 && at >= b_rows * units) break;
    const int row = at / units, column = at % units * B_VECTOR;
    const bool inside = row < rows && column0 + column < columns;
    const long long from = static_cast<long long>(row0 + row) * columns + column0 + column;
    cp_async<size * B_VECTOR>(to + row * b_pitch + size * column, w + (inside ? from : 0), inside ? size * B_VECTOR : 0);
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(threads, MIN_BLOCKS), pointwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue,
             const Sizes sizes),
            (in, w, out, epilogue, sizes)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const unsigned base = shared_address(shared);
  const int n0 = static_cast<int>(WORK_BLOCK % sizes.blocks_n) * TILE_N;
  const int m0 = static_cast<int>(WORK_BLOCK / sizes.blocks_n) * TILE_M;

  constexpr int a_units = TILE_K / A_VECTOR, a_copies = (TILE_M * a_units + threads - 1) / threads;
  const ELEMENT* rows[a_copies];  // where the rows begin that this thread copies of
#pragma unroll
  for (int i = 0; i < a_copies; ++i) {
    rows[i] = row_of(in, m0 + (i * threads + static_cast<int>(threadIdx.x)) / a_units, sizes);
  }
  const auto start = [&](int step) {
    if (step < sizes.steps) {
      const unsigned to = base + step % STAGES * stage_bytes;
#pragma unroll
      for (int i = 0; i < a_copies; ++i) {
        const int at = i * threads + threadIdx.x;
        if (TILE_M * a_units % threads != 0 && at >= TILE_M * a_units) break;
        const int row = at / a_units, column = at % a_units * A_VECTOR, k = step * TILE_K + column;
        const bool inside = m0 + row < sizes.m && k < sizes.k;
        cp_async<size * A_VECTOR>(to + row * a_pitch + size * column, rows[i] + (inside ? k : 0),
                                  inside ? size * A_VECTOR : 0);
      }
      copy_w(to + a_bytes, w, n0, step * TILE_K, sizes);
    }
    cp_async_commit();
  };
#pragma unroll
  for (int step = 0; step < ahead; ++step) start(step);

  const int warp = threadIdx.x / 32;
  const int own_m = warp / WARPS_N * warp_m, own_n = warp % WARPS_N * warp_n;
  const auto place_at = [&](int row, int column) {
    const int m = m0 + own_m + row, n = n0 + own_n + column;
    return m < sizes.m && n < sizes.n ? place(m, n, sizes) : -1;
  };
  const auto channel_of = [&](int column) { return SCATTERS ? (n0 + column) % sizes.channels : n0 + column; };
  const auto channel_at = [&](int column) { return channel_of(own_n + column); };
  TileFinish<ELEMENT, warp_m, warp_n, OUT_VECTOR, early, decltype(place_at), decltype(channel_at)> finish(
      out, epilogue, place_at, channel_at);
  // The biases come while the first operands do.
  float* const biases = reinterpret_cast<float*>(shared + biases_at);
  static_assert(TILE_N <= threads, "a thread has one bias");
  if (const int i = static_cast<int>(threadIdx.x); BIAS && i < TILE_N) {
    biases[i] = n0 + i < sizes.n ? bias_of<ELEMENT>(epilogue, channel_of(i)) : 0.0f;
  }
  float sums[warp_m / 16][warp_n / 8][4] = {};
#pragma unroll 1
  for (int step = 0; step < sizes.steps; ++step) {
    cp_async_wait<ahead - 1>();
    __syncthreads();
    if (STAGES > 1) start(step + ahead);
    const unsigned stage = base + step % STAGES * stage_bytes;
    multiply<ELEMENT, warp_m, warp_n, size * TILE_K, a_pitch, b_pitch, SCATTERS, STRICT>(
        sums, stage + own_m * a_pitch, stage + a_bytes + own_n * (SCATTERS ? size : b_pitch));
  }
  cp_async_wait<0>();
  __syncthreads();
  if constexpr (size == 4 && STRICT) mend(sums, in, w, m0 + own_m, n0 + own_n, sizes);

  finish(sums, reinterpret_cast<float*>(shared) + warp * slab_floats<warp_n>, biases + own_n);
}
