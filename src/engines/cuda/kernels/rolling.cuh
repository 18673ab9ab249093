// What depthwise_nhwc_rolling.cu and its wgrad share: strips of STRIP_ROWS x TILE_W outputs of a channel, and the row of
// inputs that a strip meets.
#pragma once

#include "axis.cuh"
#include "problem.h"
#include "types.cuh"

namespace {

using columns = Axis<IN_W, OUT_W, TAPS_W, 1, 1, PAD_W, TILE_W, false>;
constexpr int span_w = columns::span();
constexpr int tiles_w = columns::tiles();
constexpr int strips = ceil_div(OUT_H, STRIP_ROWS);
constexpr int taps = TAPS_H * TAPS_W;
constexpr int slices = ceil_div(OUT_C, CHANNEL_THREADS);
constexpr int pixel_threads = THREADS / CHANNEL_THREADS;
constexpr bool ragged_channels = OUT_C % CHANNEL_THREADS != 0;
constexpr long long size = sizeof(ELEMENT);

using Element = Raw<ELEMENT, 1>;

__device__ __forceinline__ void load_row(Element (&raw)[span_w], const char* row, bool inside, int tile_w) {
#pragma unroll
  for (int i = 0; i < span_w; ++i) {
    if (!columns::ever_inside(i)) continue;
    clear(raw[i]);
    if (inside && columns::inside(i, tile_w)) {
      raw[i] = load_raw<ELEMENT, 1>(row + static_cast<long long>(i) * IN_STRIDE_W * size);
    }
  }
}

}  // namespace
