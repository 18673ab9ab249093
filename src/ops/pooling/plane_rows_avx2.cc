#include "ops/pooling/plane_rows.inc"
