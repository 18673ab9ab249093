// The implementations that oneDNN 3.2 has of convolutions on x86-64: the one list that engines, tests and predictions
// are driven by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "convoy/engine.h"

namespace convoy::onednn {

// Bits of what an implementation is for.
enum : unsigned { kFprop = 1, kDgrad = 2, kWgrad = 4, kEveryPass = 7 };
enum : unsigned { kF32 = 1, kBf16 = 2, kF16 = 4, kHalf = 6, kFloat = 7, kInt8 = 8, kEveryType = 15 };

// Problems that an implementation is restricted to by its nature.
enum class Shape : std::uint8_t {
  any,
  pointwise,     // filters of 1 only
  depthwise,     // one input and one output channel a group
  whole_window,  // an inner product: one large filter over the whole of each of several inputs
};

struct Implementation {
  std::string_view family;  // "brgconv"
  std::string_view level;   // "avx512"; empty where it has none
  unsigned passes;
  unsigned types;
  Shape shape;
  // GFLOP/s of one core in f32, 16-bit floats and 8-bit integers: what predictions start from.
  float f32, half, int8;

  std::string name() const;          // "onednn.brgconv_avx512"
  Isa min_isa() const;               // by the level
  bool CpuFeatures::*needs() const;  // beyond min_isa; null: nothing
};

std::span<const Implementation> implementations();

// The name for what a primitive descriptor says of itself: up to a '+' (what follows is what it is composed of), ':'
// as '_', without a leading "x64:", "avx512_core" as "avx512", "avx512_core_amx" as "amx". The endings _bf16 and _fp16
// are left out: they go with the data type. "x64:gemm:jit" is "onednn.gemm".
std::string name_of_implementation(std::string_view description);
// Its index in implementations(), or their number where there is no such row.
std::size_t row_of_implementation(std::string_view description);

}  // namespace convoy::onednn
