#include "ops/matmul/integer_product.inc"

namespace convoy::ops::avx2 {
const IntegerKernels integer_kernels = {IntegerTerms::pairs, product, correct_row, requantize_row, nullptr};
}  // namespace convoy::ops::avx2
