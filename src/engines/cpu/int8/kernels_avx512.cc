#define CONVOY_INT8_KERNEL avx512_kernel
#include "engines/cpu/int8/kernels.inc"
