// The second stage of wgrad's sum: dw[k][tap] = epilogue(sum over splits of partial[split][..]), in an order that
// depends only on the number of splits. REDUCE_LANES threads share an output: each adds every REDUCE_LANES-th split,
// then their sums are added as a tree. partial is [split][tap][k] where TAPS_FIRST, else [split][k][tap].
#include "epilogue.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {
constexpr int outputs = THREADS / REDUCE_LANES;  // of a block
}

WORK_KERNEL(__launch_bounds__(THREADS), reduce,
            (const float* __restrict__ partial, ELEMENT* dw, const EpilogueArgs epilogue), (partial, dw, epilogue)) {
  overlap();
  __shared__ float shared[REDUCE_LANES][outputs];
  const int lane = threadIdx.x / outputs;
  const int mine = threadIdx.x % outputs;
  const long long index = static_cast<long long>(WORK_BLOCK) * outputs + mine;
  constexpr long long total = static_cast<long long>(REDUCE_TAPS) * OUT_C;
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
  const int k = static_cast<int>(TAPS_FIRST ? index % OUT_C : index / REDUCE_TAPS);
  const int tap = static_cast<int>(TAPS_FIRST ? index / OUT_C : index % REDUCE_TAPS);
  const float value[1] = {shared[0][mine]};
  finish<ELEMENT, 1>(value, dw, static_cast<long long>(k) * W_STRIDE_K + (FLIPPED ? REDUCE_TAPS - 1 - tap : tap), k,
                     epilogue);
}
