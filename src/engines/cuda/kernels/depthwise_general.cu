// Depthwise convolutions of any size and strides: the path of problems that the tuned kernels don't take. A thread an
// output (fprop, dgrad); for wgrad a block an output, whose threads take every THREADS-th pixel and are added as a
// tree.
#include "epilogue.cuh"
#include "problem.h"
#include "types.cuh"

namespace {

constexpr long long out_pixels = static_cast<long long>(OUT_D) * OUT_H * OUT_W;

__device__ __forceinline__ bool source(int o, int tap, int stride, int dilation, int pad, int size, int& i) {
  if constexpr (TRANSPOSED) {
    const long long scaled = static_cast<long long>(o) + pad - static_cast<long long>(tap) * dilation;
    if (scaled < 0 || scaled % stride != 0 || scaled / stride >= size) return false;
    i = static_cast<int>(scaled / stride);
    return true;
  } else {
    const long long at = static_cast<long long>(o) * stride + static_cast<long long>(tap) * dilation - pad;
    i = static_cast<int>(at);
    return at >= 0 && at < size;
  }
}

__device__ __forceinline__ long long filter_offset(long long k, int t, int r, int s) {
  return k * W_STRIDE_K + static_cast<long long>(FLIPPED ? TAPS_D - 1 - t : t) * W_STRIDE_D +
         static_cast<long long>(FLIPPED ? TAPS_H - 1 - r : r) * W_STRIDE_H +
         static_cast<long long>(FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W;
}

__device__ __forceinline__ long long in_offset(int n, int c, int d, int h, int w) {
  return static_cast<long long>(n) * IN_STRIDE_N + static_cast<long long>(c) * IN_STRIDE_C +
         static_cast<long long>(d) * IN_STRIDE_D + static_cast<long long>(h) * IN_STRIDE_H +
         static_cast<long long>(w) * IN_STRIDE_W;
}
__device__ __forceinline__ long long out_offset(int n, int c, int d, int h, int w) {
  return static_cast<long long>(n) * OUT_STRIDE_N + static_cast<long long>(c) * OUT_STRIDE_C +
         static_cast<long long>(d) * OUT_STRIDE_D + static_cast<long long>(h) * OUT_STRIDE_H +
         static_cast<long long>(w) * OUT_STRIDE_W;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise(const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out,
              const EpilogueArgs epilogue) {
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
    float sum[1] = {0};
    for (int k = 0; k < FAN_IN; ++k) {
      const int in_c = (c * FAN_IN + k) / MULTIPLIER;
      const long long filter = static_cast<long long>(c) * FAN_IN + k;
      for (int t = 0; t < TAPS_D; ++t) {
        int d, h, x;
        if (!source(o, t, STRIDE_D, DILATION_D, PAD_D, IN_D, d)) continue;
        for (int r = 0; r < TAPS_H; ++r) {
          if (!source(p, r, STRIDE_H, DILATION_H, PAD_H, IN_H, h)) continue;
          for (int s = 0; s < TAPS_W; ++s) {
            if (!source(q, s, STRIDE_W, DILATION_W, PAD_W, IN_W, x)) continue;
            sum[0] = fmaf(load_float(in + in_offset(n, in_c, d, h, x)), load_float(w + filter_offset(filter, t, r, s)),
                          sum[0]);
          }
        }
      }
    }
    finish<ELEMENT, 1>(sum, out, out_offset(n, c, o, p, q), c, epilogue);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_wgrad(const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, ELEMENT* dw,
                    const EpilogueArgs epilogue) {
  __shared__ float shared[THREADS];
  constexpr int taps = TAPS_D * TAPS_H * TAPS_W;
  constexpr long long pixels = BATCH * out_pixels;
  const int k = static_cast<int>(blockIdx.x / taps);
  const int tap = static_cast<int>(blockIdx.x % taps);
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
