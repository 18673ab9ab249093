// cpu.wgrad: gradients of weights in f32 and f64, any filter, stride, dilation, padding and groups, one to three
// dimensions.
//
// dw[k][c][tap] is a sum over positions of y, of y[position][k] * x[position * stride + tap][c]: a product of matrices
// whose inner dimension are the positions. A tile of channels by filters is summed up in registers over a block of
// positions and added to sums in memory; x is read in place, in any layout, of y a panel of filters is copied for each
// block (design.h). Threads have tiles of their own, so that nothing is added up between them.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& wgrad_engine();

}  // namespace convoy::cpu
