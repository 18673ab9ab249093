// cpu.winograd: 3x3 filters of stride and dilation 1 by F(4x4, 3x3) or F(2x2, 3x3) (knob m), f32 and f64, fprop and
// dgrad (the convolution of y with the filters turned around); in 1D filters of 3 by F(4, 3) and F(2, 3); in 3D any
// depth, each of its taps a 2D transform, added up in the transformed domain. Layouts with the channels innermost, in
// any pair.
//
// Blocks of tiles are transformed, multiplied with the transformed weights point by point, and transformed back with
// the epilogue in the store; see blocking.h for their sizes. Weights are transformed once, in double, and take 4 (m =
// 4) or 16/9 (m = 2) times their size: layers with small maps and many channels are bound by reading them. On a
// processor with AVX-512, problems with an NCHW8c tensor use 256-bit vectors.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& winograd_engine();

}  // namespace convoy::cpu
