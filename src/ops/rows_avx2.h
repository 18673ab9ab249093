// Loops over rows of narrow types that the compiler leaves scalar, vectorised for AVX2. They wait for memory, so wider
// vectors would gain nothing and there is one set of them; where there is no AVX2, callers use their own loops. Results
// have the same bits either way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::ops::avx2 {

// An operand of 8-bit elements that stand for (q - zero) * scale.
struct QuantizedRow {
  const void* data;
  bool broadcasts;  // one element for the whole row
  float scale;
  std::int32_t zero;
};

enum class QLinearFunction { add, multiply };

// y[i] = saturate(round_to_nearest_even(f(a[i], b[i]) / scale) + zero), all of `type` (u8 or s8); NaN gives the lowest
// value. y may be a or b. At least one of them does not broadcast.
void qlinear_row(DataType type, QLinearFunction function, const QuantizedRow& a, const QuantizedRow& b, float scale,
                 std::int32_t zero, void* y, std::int64_t count);

// y[i] = saturate(round_to_nearest_even(x[i] / scale) + zero), of `type` (u8, s8, u16 or s16); NaN gives the lowest
// value.
void quantize_row(DataType type, const float* x, float scale, std::int32_t zero, void* y, std::int64_t count);

// y[i] = (x[i] - zero) * scale, from `type` (u8, s8, u16 or s16).
void dequantize_row(DataType type, const void* x, float scale, std::int32_t zero, float* y, std::int64_t count);

// y[i] = condition[i] != 0 ? a[i * a_step] : b[i * b_step], elements of `size` bytes (1, 2, 4 or 8); the steps are 0
// or 1. y may be a or b.
void select_row(std::size_t size, const std::uint8_t* condition, const void* a, std::int64_t a_step, const void* b,
                std::int64_t b_step, void* y, std::int64_t count);

enum class PoolFunction { max, average };

// Whether pool_row takes elements of `type` that are `stride` apart: floats, bytes for a maximum.
bool has_pool_row(DataType type, PoolFunction function, std::int64_t stride);

// Rows of `count` windows that have the same taps: taps[k][i * stride] are those of the first row's, and with each of
// `positions` rows the taps move on by `step` elements and y by `y_step`.
struct PoolWindows {
  const void* const* taps;
  std::int64_t tap_count, stride, count;
  std::int64_t positions = 1, step = 0, y_step = 0;
  float divisor = 1;
};

// y[i] = f over the taps, k in order: the largest (NaN is never larger, of equal ones the first is kept, -inf where
// there is none) or the sum / divisor. Computed in f32, rounded once. y overlaps no tap.
void pool_row(DataType type, PoolFunction function, const PoolWindows& windows, void* y);

}  // namespace convoy::ops::avx2
