#include <immintrin.h>

#include <algorithm>

#include "ops/movement/transpose_lines.h"

namespace convoy::ops::avx512 {
namespace {

inline __m512i low(__m512i a, __m512i b, std::uint8_t) { return _mm512_unpacklo_epi8(a, b); }
inline __m512i high(__m512i a, __m512i b, std::uint8_t) { return _mm512_unpackhi_epi8(a, b); }
inline __m512i low(__m512i a, __m512i b, std::uint16_t) { return _mm512_unpacklo_epi16(a, b); }
inline __m512i high(__m512i a, __m512i b, std::uint16_t) { return _mm512_unpackhi_epi16(a, b); }

inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// Each quarter of a vector has a square of its own: 16 bytes of N columns, of which log2(N) rounds make rows.
template <class T>
inline void square(const T* from, std::int64_t column, T* to, std::int64_t to_row) {
  constexpr int N = line_rows<T>;
  __m512i v[N], next[N];
#pragma GCC unroll 16
  for (int c = 0; c < N; ++c, from += column) {
    v[c] = _mm512_castsi128_si512(load16(from));
    v[c] = _mm512_mask_broadcast_i32x4(v[c], 0x00f0, load16(from + N * column));
    v[c] = _mm512_mask_broadcast_i32x4(v[c], 0x0f00, load16(from + 2 * N * column));
    v[c] = _mm512_mask_broadcast_i32x4(v[c], 0xf000, load16(from + 3 * N * column));
  }
#pragma GCC unroll 4
  for (int round = 1; round < N; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = low(v[i], v[i + N / 2], T{});
      next[2 * i + 1] = high(v[i], v[i + N / 2], T{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) v[i] = next[i];
  }
#pragma GCC unroll 16
  for (int r = 0; r < N; ++r) _mm512_storeu_si512(to + r * to_row, v[r]);
}

// More columns than the processor foresees are asked for, two lines ahead.
template <class T>
inline void squares(const T* from, std::int64_t column, T* to, std::int64_t to_row, std::int64_t rows,
                    std::int64_t columns) {
  constexpr std::int64_t kLine = line_columns<T>, kAhead = 2 * kLine;
  for (std::int64_t c = 0; c < columns; c += kLine, from += kLine * column) {
    for (std::int64_t r = 0; r < rows; r += line_rows<T>) {
      if (r % kLine == 0 && column >= kAhead) {
        for (std::int64_t k = 0; k < kLine; ++k) __builtin_prefetch(from + k * column + r + kAhead);
      }
      square(from + r, column, to + r * to_row + c, to_row);
    }
  }
}

}  // namespace

void transpose_lines(const std::uint8_t* from, std::int64_t from_column, std::uint8_t* to, std::int64_t to_row,
                     std::int64_t rows, std::int64_t columns) {
  squares(from, from_column, to, to_row, rows, columns);
}

void transpose_lines(const std::uint16_t* from, std::int64_t from_column, std::uint16_t* to, std::int64_t to_row,
                     std::int64_t rows, std::int64_t columns) {
  squares(from, from_column, to, to_row, rows, columns);
}

}  // namespace convoy::ops::avx512
