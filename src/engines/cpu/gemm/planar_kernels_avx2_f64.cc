#define CONVOY_F64
#include "engines/cpu/gemm/planar_kernels.inc"
