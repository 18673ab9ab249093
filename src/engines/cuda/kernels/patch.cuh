// The patch of outputs that a thread of depthwise_nhwc.cu, depthwise_nchw.cu or their wgrads computes, TILE_H x TILE_W
// of them, and the inputs that it sees.
#pragma once

#include "axis.cuh"
#include "problem.h"

namespace {

using rows = Axis<IN_H, OUT_H, TAPS_H, STRIDE_H, DILATION_H, PAD_H, TILE_H, TRANSPOSED>;
using columns = Axis<IN_W, OUT_W, TAPS_W, STRIDE_W, DILATION_W, PAD_W, TILE_W, TRANSPOSED>;
constexpr int span_h = rows::span();
constexpr int span_w = columns::span();

// product(a, b, i, tap): output (a, b) meets pixel i of input row j through the tap; all that there are.
template <class Product>
__device__ __forceinline__ void for_products_of_row(int j, Product product) {
#pragma unroll
  for (int a = 0; a < TILE_H; ++a) {
    const int r = rows::tap(a, j);
    if (r < 0) continue;
#pragma unroll
    for (int i = 0; i < span_w; ++i) {
      if (!columns::ever_inside(i)) continue;
#pragma unroll
      for (int b = 0; b < TILE_W; ++b) {
        const int s = columns::tap(b, i);
        if (s < 0) continue;
        product(a, b, i, r * TAPS_W + s);
      }
    }
  }
}

}  // namespace
