// Convolutions of few channels, a network's first layer, on the tensor cores: fprop, f16 and bf16, x of any strides,
// out channels last, sums in f32, any epilogue.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.stem".
const ProductEngine& stem_engine();

}  // namespace convoy::cuda
