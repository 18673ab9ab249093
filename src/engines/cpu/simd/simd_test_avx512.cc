#include "engines/cpu/simd/simd_test_kernels.inc"
