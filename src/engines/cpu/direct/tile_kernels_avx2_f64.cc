#define CONVOY_F64
#include "engines/cpu/direct/tile_kernels.inc"
