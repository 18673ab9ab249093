// Products of a matrix with few rows: out[m][n] = sum of in[m][k] * w[n][k], fprop with filters of 1x1, channels last.
// A warp has one column of out and ROWS of its rows; its lanes go along k, VECTOR elements at a time, and load what a
// thread multiplies next all at once, since so few threads wait for each load.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

struct Sizes {
  int m, n, k;
  int blocks_n;  // of COLUMNS
};

WORK_KERNEL(__launch_bounds__(32 * COLUMNS), gemv,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs args,
             const Sizes sizes),
            (in, w, out, args, sizes)) {
  overlap();
  const int lane = static_cast<int>(threadIdx.x % 32), block = static_cast<int>(WORK_BLOCK);
  const int n = block % sizes.blocks_n * COLUMNS + static_cast<int>(threadIdx.x / 32);
  const int m0 = block / sizes.blocks_n * ROWS;
  if (n >= sizes.n) return;
  const int own = m0 + lane;  // the row that the lane stores
  const bool stores = lane < ROWS && own < sizes.m;
  const long long at = static_cast<long long>(stores ? own : m0) * sizes.n + n;
  Beside<ELEMENT, 1> beside;
  beside.load(out, at, args);
  float bias[1] = {};
  if constexpr (BIAS) load_bias<ELEMENT, 1>(bias, n, args);

  const char* rows[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int m = m0 + r < sizes.m ? m0 + r : m0;
    rows[r] = reinterpret_cast<const char*>(in + static_cast<long long>(m) * sizes.k);
  }
  const char* const column = reinterpret_cast<const char*>(w + static_cast<long long>(n) * sizes.k);
  constexpr int size = static_cast<int>(sizeof(ELEMENT)), step = 32 * VECTOR;
  float sums[ROWS] = {};
#pragma unroll 1
  for (int k0 = lane * VECTOR; k0 < sizes.k; k0 += AT_ONCE * step) {
    Raw<ELEMENT, VECTOR> of_w[AT_ONCE], of_in[AT_ONCE][ROWS];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int k = k0 + i * step;
      const bool inside = k < sizes.k;
      clear(of_w[i]);
      if (inside) of_w[i] = load_raw<ELEMENT, VECTOR>(column + k * static_cast<long long>(size));
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        clear(of_in[i][r]);
        if (inside) of_in[i][r] = load_raw<ELEMENT, VECTOR>(rows[r] + k * static_cast<long long>(size));
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      float a[VECTOR], b[VECTOR];
      unpack<ELEMENT, VECTOR>(of_w[i], b);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        unpack<ELEMENT, VECTOR>(of_in[i][r], a);
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) sums[r] = fmaf(a[v], b[v], sums[r]);
      }
    }
  }

  float sum[1] = {};
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], apart);
    if (lane == r) sum[0] = sums[r];
  }
  epilogue<ELEMENT, 1>(sum, beside, bias, n, args);
  if (stores) store_raw<ELEMENT, 1>(out + at, pack<ELEMENT, 1>(sum));
}
