#define CONVOY_BF16_KERNEL avx512_kernel
#include "engines/cpu/bf16/kernels.inc"
