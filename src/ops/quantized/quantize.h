// Quantized numbers, q = saturate(round_to_nearest_even(v / scale) + zero point) and v = (q - zero point) * scale, and
// what the operators on 8-bit tensors with one scale and zero point a tensor share. Those arrive as inputs, so they are
// read at each execution.
#pragma once

#include <limits>

#include "ops/support.h"

namespace convoy::ops {

constexpr TypeSet kBytes = only(DataType::s8) | only(DataType::u8);

// Nearest, ties to even, by adding and subtracting a number whose last place is 1: unlike a call of nearbyint it
// vectorises. `value` must be below 2^21 (f32) or 2^50.
template <class C>
C round_even(C value) {
  constexpr C magic = std::is_same_v<C, float> ? C(12582912) : C(6755399441055744);
  return (value + magic) - magic;
}

template <class Q>
struct Bounds : std::numeric_limits<Q> {};
template <class Byte, int kBits>
struct Bounds<SmallInteger<Byte, kBits>> {
  static constexpr int lowest() { return std::is_signed_v<Byte> ? -(1 << (kBits - 1)) : 0; }
  static constexpr int max() { return lowest() + (1 << kBits) - 1; }
};

// To an integer type of 16 bits or fewer. NaN becomes the lowest value.
template <class Q, class C>
Q quantize_integer(C value, C scale, C zero) {
  constexpr C low = Bounds<Q>::lowest(), high = Bounds<Q>::max();
  // Bounds that rounding needs; beyond them any zero point leaves the result saturated.
  constexpr C bound = 200000;
  const C scaled = value / scale;
  const C bounded = scaled > -bound ? (scaled < bound ? scaled : bound) : -bound;
  const C sum = round_even(bounded) + zero;
  return static_cast<Q>(static_cast<std::int32_t>(sum > low ? (sum < high ? sum : high) : low));
}

struct Quantizer {
  float scale = 1;
  float zero = 0;

  template <class Q>
  float real(Q q) const {
    return (static_cast<float>(q) - zero) * scale;
  }
  template <class Q>
  Q quantized(float value) const {
    return quantize_integer<Q, float>(value, scale, zero);
  }
};

// Input `scale` is one f32; input `zero`, where present, one value of `type`.
Result<void> check_quantizer(const NodeDesc& node, std::span<const Input> inputs, int scale, int zero, DataType type);
// The inputs of an operator on one quantized tensor: x, its scale and zero point, the output's scale and zero point.
Result<void> check_one_tensor(const NodeDesc& node, std::span<const Input> inputs);
// What check_quantizer accepted, at execution. A zero point that is absent is 0.
Quantizer read_quantizer(std::span<const void* const> in, int scale, int zero, DataType type);

}  // namespace convoy::ops
