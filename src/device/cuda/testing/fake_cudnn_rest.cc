// Every function of cuDNN's table that fake_cudnn.cc doesn't have: they return CUDNN_STATUS_SUCCESS.
#include "device/cuda/cudnn.h"

extern "C" __attribute__((visibility("default"))) int convoy_fake_success() { return CUDNN_STATUS_SUCCESS; }

#define FAKE(name)                                             \
  asm(".weak " CONVOY_SYMBOL_TEXT(cudnn##name));               \
  asm(".type " CONVOY_SYMBOL_TEXT(cudnn##name) ", @function"); \
  asm(".set " CONVOY_SYMBOL_TEXT(cudnn##name) ", convoy_fake_success");
CONVOY_CUDNN_FUNCTIONS(FAKE)
