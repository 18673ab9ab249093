#define CONVOY_F64
#include "engines/cpu/depthwise/depthwise_kernels.inc"
