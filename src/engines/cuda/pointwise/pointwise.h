// Convolutions that are products of matrices as they lie in memory, on the tensor cores: fprop with filters of 1x1, any
// stride, and dgrad with filters as large as their stride. Channels last, f16 and bf16, sums in f32, any epilogue.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.pointwise".
const ProductEngine& pointwise_engine();

}  // namespace convoy::cuda
