#include "ops/matmul/integer_product.h"

#include <cstring>

#include "ops/matmul/integer_rows.inc"

namespace convoy::ops {
namespace {

void plain_product(const std::byte* a, std::int64_t a_row, int rows, const std::byte* panel, std::int64_t groups,
                   std::int32_t* c, std::int64_t c_row) {
  for (int r = 0; r < rows; ++r) {
    std::uint32_t sums[kIntegerPanel];  // they wrap
    for (std::int64_t j = 0; j < kIntegerPanel; ++j) sums[j] = static_cast<std::uint32_t>(c[r * c_row + j]);
    for (std::int64_t g = 0; g < groups; ++g) {
      std::int16_t x[2], from[2 * kIntegerPanel];
      std::memcpy(x, a + r * a_row + g * kGroupBytes, sizeof x);
      std::memcpy(from, panel + g * kGroupBytes * kIntegerPanel, sizeof from);
      for (std::int64_t j = 0; j < kIntegerPanel; ++j)
        sums[j] += static_cast<std::uint32_t>(x[0] * from[2 * j] + x[1] * from[2 * j + 1]);
    }
    for (std::int64_t j = 0; j < kIntegerPanel; ++j) c[r * c_row + j] = static_cast<std::int32_t>(sums[j]);
  }
}

constexpr IntegerKernels kPlainKernels = {IntegerTerms::pairs, plain_product, correct_row, requantize_row, nullptr};

}  // namespace

const IntegerKernels& integer_kernels(const CpuFeatures& cpu) {
  if (cpu.isa >= Isa::avx512) return cpu.avx512_vnni ? avx512_vnni::integer_kernels : avx512::integer_kernels;
  return cpu.isa >= Isa::avx2 ? avx2::integer_kernels : kPlainKernels;
}

}  // namespace convoy::ops
