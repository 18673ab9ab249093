// Convolutions of volumes with few channels on Hopper's tensor cores: fprop, filters of three planes, f16 and bf16,
// channels last, sums in f32, any epilogue.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.volume".
const ProductEngine& volume_engine();

}  // namespace convoy::cuda
