// An output of a depthwise convolution by plain loops over the problem's constants, whatever its sizes and strides.
#pragma once

#include "problem.h"
#include "types.cuh"

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

// The products that add up in channel c of image n at (o, p, q), fprop's and dgrad's.
__device__ __forceinline__ float output_sum(const ELEMENT* in, const ELEMENT* w, int n, int c, int o, int p, int q) {
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < FAN_IN; ++k) {
    const int in_c = (c * FAN_IN + k) / MULTIPLIER;
    const long long filter = static_cast<long long>(c) * FAN_IN + k;
#pragma unroll 1
    for (int t = 0; t < TAPS_D; ++t) {
      int d, h, x;
      if (!source(o, t, STRIDE_D, DILATION_D, PAD_D, IN_D, d)) continue;
#pragma unroll 1
      for (int r = 0; r < TAPS_H; ++r) {
        if (!source(p, r, STRIDE_H, DILATION_H, PAD_H, IN_H, h)) continue;
#pragma unroll 1
        for (int s = 0; s < TAPS_W; ++s) {
          if (!source(q, s, STRIDE_W, DILATION_W, PAD_W, IN_W, x)) continue;
          sum = fmaf(load_float(in + in_offset(n, in_c, d, h, x)), load_float(w + filter_offset(filter, t, r, s)), sum);
        }
      }
    }
  }
  return sum;
}
