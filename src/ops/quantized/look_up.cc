#include "ops/quantized/look_up.h"

namespace convoy::ops {

LookUpRow look_up_row(const CpuFeatures& cpu) {
  if (cpu.avx512_vbmi) return avx512_vbmi::look_up_row;
  if (cpu.isa >= Isa::avx2) return avx2::look_up_row;
  return [](const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = table[x[i]];
  };
}

}  // namespace convoy::ops
