#include "engines/cpu/simd/testing/kernels.inc"
