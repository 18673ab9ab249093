// The narrow floating-point formats: encode and decode by the same two templates, inline for loops over many elements.
// Not for units built with their own instruction-set flags (one definition rule).
#pragma once

#include <bit>
#include <cstdint>

namespace convoy::formats {

// A binary format of one sign bit, E exponent and M mantissa bits. `kMaxFinite` is the largest finite pattern,
// `kOverflow` what larger values become, `kQuiet` a quiet NaN; patterns above kMaxFinite are NaN, save kInfinity.
// E4M3 has no infinity.
struct F16 {
  static constexpr int kExponent = 5, kMantissa = 10, kBias = 15;
  static constexpr std::uint32_t kMaxFinite = 0x7bff, kOverflow = 0x7c00, kInfinity = 0x7c00, kQuiet = 0x7e00;
};
struct Bf16 {
  static constexpr int kExponent = 8, kMantissa = 7, kBias = 127;
  static constexpr std::uint32_t kMaxFinite = 0x7f7f, kOverflow = 0x7f80, kInfinity = 0x7f80, kQuiet = 0x7fc0;
};
struct F8E4M3 {
  static constexpr int kExponent = 4, kMantissa = 3, kBias = 7;
  static constexpr std::uint32_t kMaxFinite = 0x7e, kOverflow = 0x7e, kInfinity = 0x7e, kQuiet = 0x7f;
};
struct F8E5M2 {
  static constexpr int kExponent = 5, kMantissa = 2, kBias = 15;
  static constexpr std::uint32_t kMaxFinite = 0x7b, kOverflow = 0x7b, kInfinity = 0x7c, kQuiet = 0x7e;
};

// FNUZ formats have their NaN where others have the negative zero, so all other patterns are finite.
struct F8E4M3Fnuz {
  static constexpr int kExponent = 4, kMantissa = 3, kBias = 8;
  static constexpr std::uint32_t kMaxFinite = 0x7f, kOverflow = 0x7f, kInfinity = 0x7f, kQuiet = 0x80;
};
struct F8E5M2Fnuz {
  static constexpr int kExponent = 5, kMantissa = 2, kBias = 16;
  static constexpr std::uint32_t kMaxFinite = 0x7f, kOverflow = 0x7f, kInfinity = 0x7f, kQuiet = 0x80;
};
struct F4E2M1 {  // no NaN
  static constexpr int kExponent = 2, kMantissa = 1, kBias = 1;
  static constexpr std::uint32_t kMaxFinite = 7, kOverflow = 7, kInfinity = 7, kQuiet = 8;
};

template <class Float>
struct Wide;
template <>
struct Wide<float> {
  using Bits = std::uint32_t;
  static constexpr int kExponent = 8, kMantissa = 23, kBias = 127;
};
template <>
struct Wide<double> {
  using Bits = std::uint64_t;
  static constexpr int kExponent = 11, kMantissa = 52, kBias = 1023;
};

// value >> shift, rounded to nearest, ties to even; 1 <= shift < bits of the type.
template <class Bits>
Bits shift_right_rne(Bits value, int shift) {
  const Bits half_minus_one = (Bits{1} << (shift - 1)) - 1;
  return (value + half_minus_one + ((value >> shift) & 1)) >> shift;
}

template <class Format, class Float>
std::uint32_t encode(Float value) {
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  constexpr int kDropped = W::kMantissa - Format::kMantissa;
  constexpr Bits kSign = Bits{1} << (W::kMantissa + W::kExponent);
  constexpr Bits kWideInfinity = ((Bits{1} << W::kExponent) - 1) << W::kMantissa;
  constexpr int kSignShift = W::kMantissa + W::kExponent - Format::kMantissa - Format::kExponent;

  const Bits bits = std::bit_cast<Bits>(value);
  const auto sign = static_cast<std::uint32_t>((bits & kSign) >> kSignShift);
  const Bits magnitude = bits & ~kSign;
  if (magnitude > kWideInfinity) {  // NaN: quiet, with the payload's upper bits
    constexpr std::uint32_t kPayload = (1u << Format::kMantissa) - 1;
    return sign | Format::kQuiet | (static_cast<std::uint32_t>(magnitude >> kDropped) & kPayload);
  }
  const int exponent = static_cast<int>(magnitude >> W::kMantissa) - W::kBias;
  constexpr int kLeastExponent = 1 - Format::kBias;
  if (Format::kBias == W::kBias || exponent >= kLeastExponent) {
    // Normal in the format (or the formats share their exponents): a carry out of the mantissa raises the exponent.
    const Bits rounded = shift_right_rne(magnitude, kDropped);
    constexpr Bits kRebias = static_cast<Bits>(W::kBias - Format::kBias) << Format::kMantissa;
    const Bits result = rounded - kRebias;
    return sign | (result > Format::kMaxFinite ? Format::kOverflow : static_cast<std::uint32_t>(result));
  }
  // Subnormal: the implicit one becomes explicit and everything moves right; one half of the least subnormal is a tie
  // that goes to (even) zero, everything below is zero.
  const int shift = kDropped + (kLeastExponent - exponent);
  if (shift > W::kMantissa + 1) return sign;
  const Bits mantissa = (magnitude & ((Bits{1} << W::kMantissa) - 1)) | (Bits{1} << W::kMantissa);
  return sign | static_cast<std::uint32_t>(shift_right_rne(mantissa, shift));
}

template <class Format>
float decode(std::uint32_t pattern) {
  constexpr int kDropped = 23 - Format::kMantissa;
  if constexpr (Format::kBias == 127) return std::bit_cast<float>(pattern << kDropped);  // bf16 is f32's upper half
  constexpr std::uint32_t kSign = 1u << (Format::kMantissa + Format::kExponent);
  const std::uint32_t sign = (pattern & kSign) << (31 - Format::kMantissa - Format::kExponent);
  const std::uint32_t magnitude = pattern & (kSign - 1);
  if (magnitude > Format::kMaxFinite) {
    if (magnitude == Format::kInfinity) return std::bit_cast<float>(sign | 0x7f800000u);
    return std::bit_cast<float>(sign | 0x7fc00000u | (magnitude << kDropped));
  }
  if (magnitude >> Format::kMantissa != 0) {
    const std::uint32_t rebias = static_cast<std::uint32_t>(127 - Format::kBias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << kDropped) + rebias));
  }
  // Subnormal: a multiple of 2^(1 - bias - mantissa bits), exact in f32.
  constexpr int kUnit = 127 + 1 - Format::kBias - Format::kMantissa;
  const float value = static_cast<float>(magnitude) * std::bit_cast<float>(static_cast<std::uint32_t>(kUnit) << 23);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace convoy::formats
