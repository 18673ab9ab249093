#define CONVOY_PORTABLE
#include "ops/elementwise/evaluator.inc"
