#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

struct SimdTestKernels {
  int lanes;
  void (*exp)(const float* in, float* out, std::int64_t count);
  void (*finish_channels)(const float* acc, const EpilogueArgs& e, float* out, const float* z, std::int64_t count);
  void (*finish_positions)(const float* acc, const EpilogueArgs& e, std::int64_t channel, float* out, const float* z,
                           std::int64_t count);
  // places[i]: where the i-th vector is in out and z; negative: nowhere.
  void (*finish_column)(const float* acc, const EpilogueArgs& e, std::int64_t channel, int lanes, float* out,
                        const float* z, const std::int64_t* places, std::int64_t count);
  float (*sum)(const float* in);
};

namespace avx2 {
extern const SimdTestKernels test_kernels;
}
namespace avx512 {
extern const SimdTestKernels test_kernels;
}

}  // namespace convoy::cpu
