#define CONVOY_INT8_KERNEL amx_kernel
#include "engines/cpu/int8/kernels.inc"
