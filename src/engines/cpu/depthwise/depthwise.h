// cpu.depthwise: every input channel has filters of its own (groups == C, K = m*C with a channel multiplier m >= 1),
// f32 and f64, fprop and dgrad, 1D to 3D, any filter, stride, dilation, padding, mode and epilogue.
//
// Layouts with the channels innermost (NHWC, NCHW8c, NCHW16c, and any pair of them): vectors over channels, a register
// tile over columns that loads each input once for all the outputs of a row that read it; nothing but out is written.
// NCHW: vectors over positions of a plane that is copied, padded, into the workspace first.
// On a processor with AVX-512, problems with an NCHW8c tensor use 256-bit vectors.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& depthwise_engine();

}  // namespace convoy::cpu
