// The types that ONNX's arithmetic operators take.
#pragma once

#include "ops/element.h"

namespace convoy::ops {

// The floats that ONNX's arithmetic operators take (the 8-bit ones are for storage).
constexpr TypeSet kMathFloats = only(DataType::f64) | only(DataType::f32) | only(DataType::f16) | only(DataType::bf16);
constexpr TypeSet kMathNumeric = kMathFloats | kIntegers;

}  // namespace convoy::ops
