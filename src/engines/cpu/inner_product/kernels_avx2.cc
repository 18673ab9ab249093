#include "engines/cpu/inner_product/kernels.inc"
