#include <immintrin.h>

#include <algorithm>

#include "ops/movement/transpose_squares.h"

namespace convoy::ops::avx2 {
namespace {

// Three rounds: elements, pairs and halves change places.
inline void square(const float* from, std::int64_t column, float* to, std::int64_t to_row) {
  __m256 v[kSquare], pairs[kSquare];
#pragma GCC unroll 8
  for (int c = 0; c < kSquare; ++c) v[c] = _mm256_loadu_ps(from + c * column);
#pragma GCC unroll 4
  for (int i = 0; i < kSquare; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int at = i / 2 * 4 + i % 2;
    v[at + i % 2] = _mm256_shuffle_ps(pairs[at], pairs[at + 2], 0x44);
    v[at + i % 2 + 1] = _mm256_shuffle_ps(pairs[at], pairs[at + 2], 0xee);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    _mm256_storeu_ps(to + r * to_row, _mm256_permute2f128_ps(v[r], v[r + 4], 0x20));
    _mm256_storeu_ps(to + (r + 4) * to_row, _mm256_permute2f128_ps(v[r], v[r + 4], 0x31));
  }
}

// Of four columns.
inline void half_square(const float* from, std::int64_t column, float* to, std::int64_t to_row) {
  __m256 v[4], pairs[4];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) v[c] = _mm256_loadu_ps(from + c * column);
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    v[2 * i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    v[2 * i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    _mm_storeu_ps(to + r * to_row, _mm256_castps256_ps128(v[r]));
    _mm_storeu_ps(to + (r + 4) * to_row, _mm256_extractf128_ps(v[r], 1));
  }
}

}  // namespace

// The last squares reach back over what others have made. Few columns are gone through row by row, so that a line of
// `to` is written at once.
void transpose_squares(const std::uint32_t* from, std::int64_t from_column, std::uint32_t* to, std::int64_t to_row,
                       std::int64_t rows, std::int64_t columns) {
  const auto* const x = reinterpret_cast<const float*>(from);
  auto* const y = reinterpret_cast<float*>(to);
  constexpr std::int64_t kFew = 2 * kSquare, kHalf = kSquare / 2;
  if (columns <= kFew) {
    const std::int64_t behind = columns - kSquare;  // the first square
    for (std::int64_t r = 0; r < rows; r += kSquare) {
      const std::int64_t row = std::min(r, rows - kSquare);
      const float* const corner = x + row;
      float* const made = y + row * to_row;
      square(corner, from_column, made, to_row);
      if (behind > kHalf) {
        square(corner + behind * from_column, from_column, made + behind, to_row);
      } else if (behind > 0) {
        const std::int64_t column = columns - kHalf;
        half_square(corner + column * from_column, from_column, made + column, to_row);
      }
    }
    return;
  }
  for (std::int64_t c = 0; c < columns; c += kSquare) {
    const std::int64_t column = std::min(c, columns - kSquare);
    for (std::int64_t r = 0; r < rows; r += kSquare) {
      const std::int64_t row = std::min(r, rows - kSquare);
      square(x + row + column * from_column, from_column, y + row * to_row + column, to_row);
    }
  }
}

}  // namespace convoy::ops::avx2
