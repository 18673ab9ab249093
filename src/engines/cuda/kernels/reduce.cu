// The second stage of a sum: out[i] = epilogue(sum over splits of partial[split][i]), in an order that depends only on
// the number of splits. REDUCE_LANES threads share an output: each adds every REDUCE_LANES-th split, then their sums are
// added as a tree.
#include "problem.h"
#include "types.cuh"
#include "epilogue.cuh"

namespace {
constexpr int outputs = THREADS / REDUCE_LANES;
}

// partial[SPLITS][OUTER][INNER]; element (outer, inner) goes to inner*OUT_STRIDE_INNER + outer*OUT_STRIDE_OUTER of out.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce(const float* __restrict__ partial, ELEMENT* out, const EpilogueArgs epilogue) {
  __shared__ float shared[REDUCE_LANES][outputs];
  const int lane = threadIdx.x / outputs;
  const int mine = threadIdx.x % outputs;
  const long long index = static_cast<long long>(blockIdx.x) * outputs + mine;
  constexpr long long total = static_cast<long long>(REDUCE_OUTER) * REDUCE_INNER;
  float sum = 0;
  if (index < total) {
#pragma unroll 4
    for (int split = lane; split < SPLITS; split += REDUCE_LANES) sum += partial[split * total + index];
  }
  shared[lane][mine] = sum;
  __syncthreads();
#pragma unroll
  for (int half = REDUCE_LANES / 2; half > 0; half /= 2) {
    if (lane < half) shared[lane][mine] += shared[lane + half][mine];
    __syncthreads();
  }
  if (lane != 0 || index >= total) return;
  const int inner = static_cast<int>(index % REDUCE_INNER);
  const int outer = static_cast<int>(index / REDUCE_INNER);
  const float value[1] = {shared[0][mine]};
  finish<ELEMENT, 1>(value, out, inner * static_cast<long long>(OUT_STRIDE_INNER) +
                                     outer * static_cast<long long>(OUT_STRIDE_OUTER),
                     CHANNEL_IS_INNER ? inner : outer, epilogue);
}
