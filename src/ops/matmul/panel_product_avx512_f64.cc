#define CONVOY_F64
#include "ops/matmul/panel_product.inc"
