#include "ops/reduce/fold_kernels.inc"
