#include "engines/cpu/common/epilogue_pass.inc"
