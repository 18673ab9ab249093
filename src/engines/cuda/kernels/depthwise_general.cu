// Depthwise convolutions of any size and strides: the path of problems that the tuned kernels don't take. A thread an
// output (fprop, dgrad); for wgrad a block an output, whose threads take every THREADS-th pixel and are added as a
// tree.
#include "epilogue.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {

constexpr long long out_pixels = static_cast<long long>(OUT_D) * OUT_H * OUT_W;

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise(const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out,
              const EpilogueArgs epilogue) {
  overlap();
  constexpr long long total = static_cast<long long>(BATCH) * OUT_C * out_pixels;
  for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < total;
       i += static_cast<long long>(gridDim.x) * THREADS) {
    // Neighbouring threads take neighbouring channels where those are neighbours in memory, else pixels.
    const int c = static_cast<int>(CHANNELS_INNERMOST ? i % OUT_C : i / out_pixels % OUT_C);
    const long long pixel = CHANNELS_INNERMOST ? i / OUT_C % out_pixels : i % out_pixels;
    const int n = static_cast<int>(i / (OUT_C * out_pixels));
    const int q = static_cast<int>(pixel % OUT_W);
    const int p = static_cast<int>(pixel / OUT_W % OUT_H);
    const int o = static_cast<int>(pixel / (static_cast<long long>(OUT_W) * OUT_H));
    const float sum[1] = {output_sum(in, w, n, c, o, p, q)};
    finish<ELEMENT, 1>(sum, out, out_offset(n, c, o, p, q), c, epilogue);
  }
}

WORK_KERNEL(__launch_bounds__(THREADS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, ELEMENT* dw, const EpilogueArgs epilogue),
            (x, dy, dw, epilogue)) {
  overlap();
  __shared__ float shared[THREADS];
  constexpr int taps = TAPS_D * TAPS_H * TAPS_W;
  constexpr long long pixels = BATCH * out_pixels;
  const int k = static_cast<int>(WORK_BLOCK / taps);
  const int tap = static_cast<int>(WORK_BLOCK % taps);
  const int t = tap / (TAPS_H * TAPS_W);
  const int r = tap / TAPS_W % TAPS_H;
  const int s = tap % TAPS_W;
  float sum = 0;
  for (long long i = threadIdx.x; i < pixels; i += THREADS) {
    const int q = static_cast<int>(i % OUT_W);
    const int p = static_cast<int>(i / OUT_W % OUT_H);
    const int o = static_cast<int>(i / (static_cast<long long>(OUT_W) * OUT_H) % OUT_D);
    const int n = static_cast<int>(i / out_pixels);
    int d, h, column;
    if (!source(o, t, STRIDE_D, DILATION_D, PAD_D, IN_D, d) || !source(p, r, STRIDE_H, DILATION_H, PAD_H, IN_H, h) ||
        !source(q, s, STRIDE_W, DILATION_W, PAD_W, IN_W, column)) {
      continue;
    }
    sum = fmaf(load_float(x + in_offset(n, k / MULTIPLIER, d, h, column)), load_float(dy + out_offset(n, k, o, p, q)),
               sum);
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const float total[1] = {shared[0]};
  finish<ELEMENT, 1>(total, dw, filter_offset(k, t, r, s), k, epilogue);
}
