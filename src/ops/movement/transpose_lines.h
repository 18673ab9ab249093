// Transposing elements of one or two bytes with AVX-512: whole cache lines are written.
#pragma once

#include <cstdint>

namespace convoy::ops::avx512 {

// to[r * to_row + c] = from[r + c * from_column], of squares of line_rows x line_columns: rows and columns are
// multiples of these. It reads from line_columns lines at a time, which the first cache has to hold.
template <class T>
constexpr std::int64_t line_rows = 16 / sizeof(T);
template <class T>
constexpr std::int64_t line_columns = 64 / sizeof(T);

void transpose_lines(const std::uint8_t* from, std::int64_t from_column, std::uint8_t* to, std::int64_t to_row,
                     std::int64_t rows, std::int64_t columns);
void transpose_lines(const std::uint16_t* from, std::int64_t from_column, std::uint16_t* to, std::int64_t to_row,
                     std::int64_t rows, std::int64_t columns);

}  // namespace convoy::ops::avx512
