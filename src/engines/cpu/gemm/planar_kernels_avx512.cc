#include "engines/cpu/gemm/planar_kernels.inc"
