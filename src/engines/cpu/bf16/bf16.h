// cpu.bf16: fprop of bf16 tensors in nhwc by GEMM over lines of x, with AVX512_BF16; cpu.bf16_amx: the same in AMX's
// tiles. Sums are in f32. Both take subnormal numbers for zero.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& bf16_engine();
const Engine& bf16_amx_engine();

}  // namespace convoy::cpu
