#include "engines/cpu/common/tile_kernels.inc"
