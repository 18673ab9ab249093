#pragma once

#include <cstdint>

namespace convoy::cpu {

struct CeilingKernels {
  int flops_a_round;
  // `rounds` rounds of independent multiply-adds; the result only keeps the compiler from leaving them out.
  float (*multiply_add)(std::int64_t rounds, float factor, float summand);
  // Reads `count` floats, a multiple of 64, once.
  float (*read)(const float* values, std::int64_t count);
};

namespace portable {
extern const CeilingKernels ceiling_kernels;
}
namespace avx2 {
extern const CeilingKernels ceiling_kernels;
}
namespace avx512 {
extern const CeilingKernels ceiling_kernels;
}

}  // namespace convoy::cpu
