// Every function of the driver's table that fake_driver.cc doesn't have: they return CUDA_ERROR_NOT_SUPPORTED.
#include "device/cuda/driver.h"

extern "C" __attribute__((visibility("default"))) int convoy_fake_not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

#define FAKE(name)                                          \
  asm(".weak " CONVOY_SYMBOL_TEXT(cu##name));               \
  asm(".type " CONVOY_SYMBOL_TEXT(cu##name) ", @function"); \
  asm(".set " CONVOY_SYMBOL_TEXT(cu##name) ", convoy_fake_not_supported");
CONVOY_CUDA_DRIVER_FUNCTIONS(FAKE)
asm(".weak cuEventElapsedTime");
asm(".type cuEventElapsedTime, @function");
asm(".set cuEventElapsedTime, convoy_fake_not_supported");
