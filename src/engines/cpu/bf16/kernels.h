// bf16 GEMM micro-kernels: c[r][n] = sum over k of a[r][k]*b[k][n] in f32, a register tile at a time, and the epilogue
// on such a tile. Products of two neighbours are added by AVX512_BF16 or AMX-BF16, which take subnormal numbers for
// zero. Plain data only: these structs are shared by units of every instruction set.
#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"
#include "engines/cpu/common/products.h"

namespace convoy::cpu::bf16 {

struct Kernel {
  TileShape tile;
  Multiply<float> multiply;
  void (*release)();  // after a thread's last multiply
  // Rows of c, `columns` sums each of tile.columns, are finished and stored at out + offsets[r]; `channel` is their
  // first. z, placed like out, may be null where gamma is 0.
  void (*finish)(const float* c, int rows, int columns, const EpilogueArgs& epilogue, std::int64_t channel,
                 const std::uint16_t* z, std::uint16_t* out, const std::int64_t* offsets);
};

extern const Kernel avx512_kernel;
extern const Kernel amx_kernel;

}  // namespace convoy::cpu::bf16
