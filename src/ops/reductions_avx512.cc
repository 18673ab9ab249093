#include "ops/reductions.inc"
