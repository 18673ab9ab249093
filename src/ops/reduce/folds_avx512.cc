#include "ops/reduce/folds.inc"
