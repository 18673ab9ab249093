#define CONVOY_QUADS
#include "ops/matmul/integer_product.inc"

namespace convoy::ops::avx512_vnni {
const IntegerKernels integer_kernels = {IntegerTerms::quads, avx512::product, correct_row, requantize_row,
                                        avx512::pack_quads};
}  // namespace convoy::ops::avx512_vnni
