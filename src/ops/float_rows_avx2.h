// Loops over rows of f32 that the compiler leaves scalar, vectorised for AVX2, and rows of narrow types as f32. What
// they are for waits for memory, so there is one set of them; where there is no AVX2, callers use their own loops,
// which give the same bits but for sums: these add in another order and by FMA, all in f64.
#pragma once

#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::ops::avx2 {

// y[i] = x[i], from elements of `type` (f16, bf16, u8, s8). Exact.
void widen_row(DataType type, const void* x, float* y, std::int64_t count);

// y[i] = x[i] as `type` (f16, bf16), rounded to nearest even: the bits of core/float_formats.h.
void narrow_row(DataType type, const float* x, void* y, std::int64_t count);

// The sums of x - center and of its squares, in f64.
struct RowSums {
  double sum = 0, squares = 0;
};
RowSums sums_row(const float* x, double center, std::int64_t count);

// Rows added up in f64: sums[i] += x[i] - center[i], squares[i] += the square of that.
void add_row(const float* x, const float* center, double* sums, double* squares, std::int64_t count);

// y[i] = x[i] cut off towards zero as 64-bit integers are and then to their lowest byte; NaN gives 0.
void truncate_row(const float* x, void* y, std::int64_t count);

// The same to whole s32 or s64; s32 keeps the lowest bits of what is too large for it.
void truncate_row(const float* x, std::int32_t* y, std::int64_t count);
void truncate_row(const float* x, std::int64_t* y, std::int64_t count);

// y[i] = x[i] != 0, which a NaN is.
void nonzero_row(const float* x, std::uint8_t* y, std::int64_t count);
void nonzero_row(const std::int64_t* x, std::uint8_t* y, std::int64_t count);

// y[i] = x[i], rounded once.
void longs_row(const std::int64_t* x, float* y, std::int64_t count);

// y[o] = the sum over t < taps of weight[t * count + o] * x[index[t * count + o]], for whole eights of the `count`
// outputs. base[o / 8]: eight neighbours from there on hold all that those eight outputs need; or kPairs: there are two
// taps, and the second is the element behind the first; or kAnywhere.
constexpr std::int32_t kAnywhere = -1, kPairs = -2;
void weighted_row(const float* x, const std::int32_t* base, const std::int32_t* index, const float* weight,
                  std::int64_t taps, std::int64_t count, float* y);

// y[i] = a_weight * a[i] + b_weight * b[i]. y may be a.
void weighted_pair(const float* a, float a_weight, const float* b, float b_weight, std::int64_t count, float* y);

}  // namespace convoy::ops::avx2
