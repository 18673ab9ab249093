#define CONVOY_F64
#include "engines/cpu/common/tile_kernels.inc"
