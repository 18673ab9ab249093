#define CONVOY_F64
#include "engines/cpu/winograd/winograd_kernels.inc"
