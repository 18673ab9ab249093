// Pooling of rows whose elements lie side by side, f32 or halves, with the widest vectors that there are:
// down the columns of a row of windows, in f32, and then along what came of it.
#pragma once

#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/data_type.h"

namespace convoy::ops {

struct PlaneRows {
  // y[i] = the largest of rows[k][i] over k < row_count (a NaN is passed over, -inf where there is nothing else), or
  // with `sums` their sum.
  void (*down)(bool sums, DataType type, const void* const* rows, std::int64_t row_count, std::int64_t count, float* y);
  // y[o] = the largest or the sum of x[o * stride + k * dilation] over k < taps, for o < count; sums are divided by
  // divisors[o] * divisor. Up to kSlack elements behind those of x are read.
  void (*along)(bool sums, const float* x, std::int64_t taps, std::int64_t stride, std::int64_t dilation,
                const float* divisors, float divisor, std::int64_t count, DataType type, void* y);
  static constexpr std::int64_t kSlack = 64;

  // Of a plane whose rows are two vectors at most, and rows of windows one: all in registers. y[r * count + o] = the
  // largest or the sum of x[down[r * down_taps + i] + along[k * lanes + o]] over i < down_taps, k < along_taps, for
  // r < rows. Row r reads `width` elements from x[down[...]] on. For sums a negative `down` is no tap, elements from
  // `width` on are 0 (width < 2 * lanes where one is read), and row r is divided by down_divisors[r] *
  // along_divisors[o], of which there are as many as lanes.
  struct ShortPlane {
    const std::int64_t* down;
    std::int64_t down_taps, rows, width;
    const std::int32_t* along;
    std::int64_t along_taps, count;
    const float *down_divisors, *along_divisors;
  };
  void (*short_plane)(bool sums, DataType type, const ShortPlane& plane, const void* x, void* y);
  // y[o] = the largest or the sum of x[index[k * step + o]] over k < taps, for o < count; `step` is a multiple of
  // lanes. For sums a negative index is no tap, and y[o] is divided by divisors[o].
  void (*gathered)(bool sums, DataType type, const void* x, const std::int32_t* index, std::int64_t taps,
                   std::int64_t step, const float* divisors, std::int64_t count, void* y);
  int lanes;
};

// For an instruction set that the processor has; null: there are none.
const PlaneRows* plane_rows(Isa isa);

namespace avx2 {
extern const PlaneRows kPlaneRows;
}
namespace avx512 {
extern const PlaneRows kPlaneRows;
}

}  // namespace convoy::ops
