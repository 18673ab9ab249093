// Rows of elements as f32 and back, a chunk at a time: operators on 16-bit floats compute in f32, and their loops are
// those of f32. `vectors` says whether the processor has what float_rows_avx2.h is compiled for; elements have the same
// bits either way, sums not always (sums_row).
#pragma once

#include <algorithm>
#include <array>

#include "convoy/engine.h"
#include "ops/element.h"
#include "ops/float_rows_avx2.h"

namespace convoy::ops {

constexpr std::int64_t kRowChunk = 512;
using RowBuffer = std::array<float, kRowChunk>;

// The types that float_rows_avx2.h and rows_avx2.h have rows of besides f32.
template <class T>
constexpr bool has_wide_rows = is_half<T> || std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::int8_t>;
template <class T>
constexpr DataType row_type = std::is_same_v<T, F16>            ? DataType::f16
                              : std::is_same_v<T, BF16>         ? DataType::bf16
                              : std::is_same_v<T, std::uint8_t> ? DataType::u8
                                                                : DataType::s8;

// The types of RowFunctions.
template <class T>
constexpr bool has_row_functions = is_half<T> || std::is_same_v<T, float>;
template <class T>
constexpr DataType float_type = is_half<T> ? row_type<T> : DataType::f32;

inline bool has_row_vectors(const PlanRequest& request) { return request.cpu.isa >= Isa::avx2; }

// `count` (at most kRowChunk) elements of x, `stride` apart, as f32: in the buffer, or where they are.
template <class T>
const float* load_row(bool vectors, const T* x, std::int64_t stride, std::int64_t count, float* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    if (stride == 1) return x;
  }
  if constexpr (has_wide_rows<T>) {
    if (vectors && stride == 1) {
      avx2::widen_row(row_type<T>, x, buffer, count);
      return buffer;
    }
  }
  if (stride == 0) {
    std::fill_n(buffer, count, static_cast<float>(*x));
  } else {
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(x[i * stride]);
  }
  return buffer;
}

// The same in what T is computed in: f64 and integers are where they are.
template <class T>
const Compute<T>* computed(bool vectors, const T* x, std::int64_t count, RowBuffer& buffer) {
  if constexpr (is_half<T>) {
    return load_row(vectors, x, 1, count, buffer.data());
  } else {
    return x;
  }
}

// How many neighbouring channels (at most kRowChunk) are a unit of work where channels are innermost and each is
// reduced: as many as leave a unit for each thread, so that memory is read in long runs.
inline std::int64_t channels_of_unit(std::int64_t batch, std::int64_t channels, std::int64_t threads) {
  constexpr std::int64_t kLine = 32;
  const std::int64_t units = (threads + batch - 1) / std::max<std::int64_t>(batch, 1);
  const std::int64_t share = (channels + units - 1) / std::max<std::int64_t>(units, 1);
  return std::clamp((share + kLine - 1) / kLine * kLine, kLine, kRowChunk);
}

// The other way, rounded once. T is a float.
template <class T>
void store_row(bool vectors, const float* x, std::int64_t count, T* y, std::int64_t stride) {
  if constexpr (is_half<T>) {
    if (vectors && stride == 1) {
      return avx2::narrow_row(row_type<T>, x, y, count);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) y[i * stride] = T(x[i]);
}

// y = f(x) for a row: body(from, to, offset, n) computes n elements, from `offset` of the row on, in f32. y is x or
// does not overlap it; T is f32 or a half.
template <class T>
void in_f32(bool vectors, const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, std::int64_t count,
            FunctionRef<void(const float* from, float* to, std::int64_t offset, std::int64_t count)> body) {
  if constexpr (std::is_same_v<T, float>) {
    if (x_stride == 1 && y_stride == 1) return body(x, y, std::int64_t{0}, count);
  }
  RowBuffer values;
  for (std::int64_t start = 0; start < count; start += kRowChunk) {
    const std::int64_t n = std::min(kRowChunk, count - start);
    const float* from = load_row(vectors, x + start * x_stride, x_stride, n, values.data());
    body(from, values.data(), start, n);
    store_row(vectors, values.data(), n, y + start * y_stride, y_stride);
  }
}

}  // namespace convoy::ops
