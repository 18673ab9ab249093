// Transposing elements of four bytes with AVX2.
#pragma once

#include <cstdint>

namespace convoy::ops::avx2 {

constexpr std::int64_t kSquare = 8;

// to[r * to_row + c] = from[r + c * from_column], at least kSquare rows and columns.
void transpose_squares(const std::uint32_t* from, std::int64_t from_column, std::uint32_t* to, std::int64_t to_row,
                       std::int64_t rows, std::int64_t columns);

}  // namespace convoy::ops::avx2
