// Convolutions as products of matrices on Hopper's tensor cores: fprop with filters of one pixel, dgrad with filters as
// large as their stride, f16 and bf16, channels last, sums in f32, any epilogue that adds one tensor.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.gemm".
const ProductEngine& gemm_engine();

}  // namespace convoy::cuda
