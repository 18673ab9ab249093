// Products of rows with panels of a packed matrix of whole numbers, four bytes of a row at a time, and what follows on
// rows of their sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/cpu.h"

namespace convoy::ops {

// What four bytes of a row, and of a column of a panel, are: two numbers of 16 bits, or four of 8, u8 of the row and s8
// of the panel (VNNI).
enum class IntegerTerms : std::uint8_t { pairs = 2, quads = 4 };

// A panel has, for each group of its rows, four bytes a column.
constexpr std::int64_t kIntegerPanel = 32;
constexpr std::int64_t kGroupBytes = 4;

// c[r][0 .. kIntegerPanel) += a[r] . panel over `groups`, for each of the rows, in 32 bits that wrap. Rows lie a_row
// bytes and c_row elements apart. Sums of two products of 16 bits must fit into 32.
using IntegerProduct = void (*)(const std::byte* a, std::int64_t a_row, int rows, const std::byte* panel,
                                std::int64_t groups, std::int32_t* c, std::int64_t c_row);

// sums[j] -= a * by_a[j] + b * by_b[j], in 32 bits that wrap. A factor of 0 needs no row.
using CorrectRow = void (*)(std::int32_t* sums, std::int64_t count, std::int32_t a, const std::int32_t* by_a,
                            std::int32_t b, const std::int32_t* by_b);

// y[j] = clamp(round_to_nearest_even(sums[j] * scales[j * step]) + zero, low, high); NaN becomes low. step is 0 or 1,
// low and high are bounds of s8 or u8.
using RequantizeRow = void (*)(const std::int32_t* sums, const double* scales, std::int64_t step, std::int64_t count,
                               double zero, double low, double high, std::uint8_t* y);

// kIntegerPanel columns of 4 * groups rows of bytes, b_row apart, as quads; each byte exclusive or `flip`.
using PackQuads = void (*)(const std::uint8_t* b, std::int64_t b_row, std::int64_t groups, std::uint8_t flip,
                           std::byte* panel);

struct IntegerKernels {
  IntegerTerms terms;
  IntegerProduct product;
  CorrectRow correct;
  RequantizeRow requantize;
  PackQuads pack_quads;  // with quads only
};
// With the widest vectors that the processor has.
const IntegerKernels& integer_kernels(const CpuFeatures& cpu);

namespace avx2 {
extern const IntegerKernels integer_kernels;
}  // namespace avx2
namespace avx512 {
extern const IntegerKernels integer_kernels;
}  // namespace avx512
namespace avx512_vnni {
extern const IntegerKernels integer_kernels;
}  // namespace avx512_vnni

}  // namespace convoy::ops
