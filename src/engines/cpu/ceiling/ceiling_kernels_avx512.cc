#include "engines/cpu/ceiling/ceiling_kernels.inc"
