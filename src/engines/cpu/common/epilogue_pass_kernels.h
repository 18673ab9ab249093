// Kernels of epilogue_pass.h, plain data for units of every instruction set.
#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

struct EpiloguePassKernels {
  // `rows` rows, one after the other, of `length` consecutive channels from `channel` on; `pitch` elements from row to
  // row. z may be null where gamma is 0.
  void (*channels)(float* out, const float* z, const EpilogueArgs& e, std::int64_t channel, std::int64_t length,
                   std::int64_t rows, std::int64_t pitch);
  // `length` positions of one channel.
  void (*positions)(float* out, const float* z, const EpilogueArgs& e, std::int64_t channel, std::int64_t length);
};

namespace avx2 {
extern const EpiloguePassKernels epilogue_pass_kernels;
}
namespace avx512 {
extern const EpiloguePassKernels epilogue_pass_kernels;
}

}  // namespace convoy::cpu
