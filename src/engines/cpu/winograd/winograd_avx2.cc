#include "engines/cpu/winograd/winograd_kernels.inc"
