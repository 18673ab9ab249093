// The cost model of tile_plan.h: cycles of one thread with everything in cache. Seconds: predict.cc.
#pragma once

#include "engines/cpu/direct/tile_plan.h"

namespace convoy::cpu {

// Cycles of all tiles of a phase with `shape` as the panels' main kernel.
double shape_cycles(const ForwardConv& conv, const TilePhase& phase, const TileShape& shape,
                    const TileKernels& kernels);

// Cycles for filling the buffers of all of a phase's blocks: 8 floats a cycle and the calls of memcpy.
double copy_cycles(const TileDesign& design, const TilePhase& phase);

}  // namespace convoy::cpu
