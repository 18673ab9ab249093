#include "engines/cpu/depthwise/depthwise_kernels.inc"
