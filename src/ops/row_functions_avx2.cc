#include "ops/row_functions.inc"
