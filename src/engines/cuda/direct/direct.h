// Convolutions of few channels on planes, as networks of volumes have them: fprop, f32, f16 and bf16, rows whose pixels
// lie side by side (NCW, NCHW, NCDHW and slices of such), any padding and dilation, sums in f32 by multiply-adds, any
// epilogue.
#pragma once

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda {

// Engine "cuda.direct".
const ProductEngine& direct_engine();

}  // namespace convoy::cuda
