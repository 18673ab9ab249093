#include "engines/cpu/direct/tile_kernels.inc"
