#define CONVOY_BF16_KERNEL amx_kernel
#include "engines/cpu/bf16/kernels.inc"
