// Positions of channels-last 1D tensors in shared memory, PLANES neighbouring channels of each, as they lie in the
// tensor: for depthwise_signal_nhwc.cu and depthwise_signal_nhwc_wgrad.cu, whose neighbouring threads work on
// neighbouring channels.
#pragma once

#include "ptx.cuh"
#include "signal_axis.cuh"
#include "types.cuh"

namespace {

constexpr int row_bytes = PLANES * static_cast<int>(sizeof(ELEMENT));
constexpr int tile_threads = PLANES * items_plane;  // of a block; others only copy

template <class R>
struct Channels {
  static constexpr int all = R::positions * R::phases;
  static constexpr int bytes = all * row_bytes;
  // 16 bytes at a time.
  static constexpr int wide = 16 / static_cast<int>(sizeof(ELEMENT));
  static constexpr bool aligned =
      R::stride_c == 1 && R::stride_n % wide == 0 && R::step % wide == 0 && ALIGNMENT % 16 == 0 && PLANES % wide == 0;
  static constexpr int piece = aligned ? wide : 1;
  static constexpr int pieces = PLANES / piece;  // of a position
  static_assert(THREADS % pieces == 0);
  static constexpr int pass = THREADS / pieces;  // positions that the block copies at once
  static constexpr int passes = ceil_div(all, pass);

  // Starts copying what `segment` sees of image n, `shift` positions on, zeros beyond the edges; cp_async_wait ends it.
  __device__ static __forceinline__ void load(char* shared, const ELEMENT* from, int n, int first_channel, int segment,
                                              int shift) {
    const int channel = threadIdx.x % pieces * piece;
    const int begin = threadIdx.x / pieces;
    const int origin = begin + segment * (segment_tiles * R::phases) + R::base + shift;
    const int channels = OUT_C % PLANES == 0 ? piece : min_of(piece, OUT_C - first_channel - channel);
    const ELEMENT* source = from + n * R::stride_n + (first_channel + channel) * R::stride_c + origin * R::step;
    char* target = shared + begin * row_bytes + channel * static_cast<int>(sizeof(ELEMENT));
    const unsigned address = shared_address(target);
#pragma unroll 4
    for (int i = 0; i < passes; ++i) {
      if ((i + 1) * pass > all && begin + i * pass >= all) break;
      const int at = origin + i * pass;
      const bool inside = at >= 0 && at < R::length && channels > 0;
      const ELEMENT* pixel = source + i * (pass * R::step);
      if constexpr (piece > 1 || sizeof(ELEMENT) == 4) {
        constexpr int size = piece * static_cast<int>(sizeof(ELEMENT));
        cp_async<size>(address + i * (pass * row_bytes), pixel,
                       inside ? channels * static_cast<int>(sizeof(ELEMENT)) : 0);
      } else {
        *reinterpret_cast<ELEMENT*>(target + i * (pass * row_bytes)) = inside ? *pixel : from_float<ELEMENT>(0);
      }
    }
  }
};

__device__ __forceinline__ float load_element(const char* p) { return to_float(*reinterpret_cast<const ELEMENT*>(p)); }

}  // namespace
