// cpu.int8: fprop of s8 and u8 tensors by GEMM over implicit im2col tiles; cpu.int8_amx: the same in AMX's tiles.
//
//   sum over c, taps of (x - x_zero_point) * (w - w_zero_point), in 32 bits that wrap, exact
//
// x is shifted to u8 and w to s8 (x' = x + 128 for s8, w' = w - 128 for u8) and the zero points are taken out
// afterwards, n being the number of terms:
//   sum = sum x'w' - zx' * sum w' - zw' * sum x' + n * zx' * zw'
// Depthwise weights are s16 with their zero point already subtracted, or, with VNNI and without a zero point, s8.
// Zero points that come with the execution, zw' one per output channel, meet the sums of w' kept with the packed
// weights and the sums of x' of each gathered tile.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& int8_engine();
const Engine& int8_amx_engine();

}  // namespace convoy::cpu
