// cpu.gemm: f32 and f64 fprop and dgrad as matrix products, nhwc to nhwc and nchw to nchw.
//
// nhwc: rows of the matrix are output positions. A 1x1 unpadded problem of any stride reads x where it is; others
// gather a block of positions' taps at a time (im2col never spelled out whole). nchw: vectors run along positions, see
// planar_plan.h. 1D to 3D, groups, dilation, any padding, both modes; every epilogue in the store.
// Knobs of a register tile: `positions` and `channel_vectors` in nhwc, `channels` and `position_vectors` in nchw.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& gemm_engine();

}  // namespace convoy::cpu
