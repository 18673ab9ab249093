// Kernels of cpu.inner_product, plain data for units of every instruction set.
#pragma once

#include <cstdint>

#include "convoy/data_type.h"
#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

struct InnerProductKernels {
  // sums[r] = the sum over i of x[i] * rows[r * count + i]; rows of `type`: f32, bf16 or f16.
  void (*dots)(DataType type, const float* x, const void* rows, std::int64_t row_count, std::int64_t count,
               float* sums);
  // out[i] = epilogue of sums[i] for channels from `channel` on; sums may be out. `z` may be null where gamma is 0.
  void (*finish)(const float* sums, const EpilogueArgs& epilogue, std::int64_t channel, std::int64_t count, float* out,
                 const float* z);
  void (*widen)(DataType type, const void* from, float* to, std::int64_t count);   // from bf16 or f16
  void (*narrow)(DataType type, const float* from, void* to, std::int64_t count);  // to bf16 or f16
};

namespace avx2 {
extern const InnerProductKernels inner_product_kernels;
}
namespace avx512 {
extern const InnerProductKernels inner_product_kernels;
}

}  // namespace convoy::cpu
