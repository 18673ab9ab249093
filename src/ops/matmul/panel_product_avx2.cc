#include "ops/matmul/panel_product.inc"
