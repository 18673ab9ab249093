// Convolutions with filters of one pixel on few pixels, as a squeeze-and-excitation has them: fprop, f32, f16 and bf16,
// channels last, sums in f32, any epilogue.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.gemv".
const ProductEngine& gemv_engine();

}  // namespace convoy::cuda
