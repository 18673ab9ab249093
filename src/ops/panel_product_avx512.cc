#include "ops/panel_product.inc"
