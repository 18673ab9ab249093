// cpu.direct: f32 and f64 fprop and dgrad straight from the formula, vectors along output channels, input values
// broadcast.
//
// Layouts (x, y): nhwc, nchw16c and nchw8c to themselves; nchw to nhwc and to nchw16c for stems (fprop only). 1D to 3D,
// groups, any stride, dilation and padding, both modes; every epilogue in the store. See common/tile_plan.h.
// Knobs `positions` and `channel_vectors`: output positions and vectors of output channels of a register tile.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& direct_engine();

}  // namespace convoy::cpu
