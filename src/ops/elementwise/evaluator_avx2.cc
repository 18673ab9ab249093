#include "ops/elementwise/evaluator.inc"
