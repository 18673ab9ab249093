#include "engines/cpu/simd/epilogue.h"
#include "engines/cpu/winograd/transforms.h"
#include "engines/cpu/winograd/winograd_kernels.h"

// clang-format off
#include "engines/cpu/winograd/transform_kernels.inc"
#include "engines/cpu/winograd/product_kernel.inc"
// clang-format on
