#define CONVOY_INT8_KERNEL avx2_kernel
#include "engines/cpu/int8/kernels.inc"
