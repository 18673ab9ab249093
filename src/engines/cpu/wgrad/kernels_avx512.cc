#include "engines/cpu/wgrad/kernels.inc"
