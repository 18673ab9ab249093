// Convolutions on few pixels, as a network has them for one image, by an implicit product of matrices on the tensor
// cores: fprop, f16 and bf16, channels last, sums in f32, any epilogue. The blocks of a cluster share the terms.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.igemm".
const ProductEngine& igemm_engine();

}  // namespace convoy::cuda
