#define CONVOY_F64
#include "engines/cpu/wgrad/kernels.inc"
