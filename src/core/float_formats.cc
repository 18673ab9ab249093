#include "core/float_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/data_type.h"

namespace convoy {

using namespace formats;

float f16_to_f32(std::uint16_t bits) { return decode<F16>(bits); }
std::uint16_t f32_to_f16(float value) { return static_cast<std::uint16_t>(encode<F16>(value)); }
std::uint16_t f64_to_f16(double value) { return static_cast<std::uint16_t>(encode<F16>(value)); }

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
std::uint16_t f32_to_bf16(float value) { return static_cast<std::uint16_t>(encode<Bf16>(value)); }
std::uint16_t f64_to_bf16(double value) { return static_cast<std::uint16_t>(encode<Bf16>(value)); }

float f8_e4m3_to_f32(std::uint8_t bits) { return decode<F8E4M3>(bits); }
std::uint8_t f32_to_f8_e4m3(float value) { return static_cast<std::uint8_t>(encode<F8E4M3>(value)); }
std::uint8_t f64_to_f8_e4m3(double value) { return static_cast<std::uint8_t>(encode<F8E4M3>(value)); }

float f8_e5m2_to_f32(std::uint8_t bits) { return decode<F8E5M2>(bits); }
std::uint8_t f32_to_f8_e5m2(float value) { return static_cast<std::uint8_t>(encode<F8E5M2>(value)); }
std::uint8_t f64_to_f8_e5m2(double value) { return static_cast<std::uint8_t>(encode<F8E5M2>(value)); }

namespace {

template <class Format>
std::uint8_t encode_fnuz(double value) {
  constexpr std::uint8_t kNaN = Format::kQuiet;
  const auto bits = static_cast<std::uint8_t>(encode<Format>(value));
  return std::isnan(value) ? kNaN : bits == kNaN ? std::uint8_t{0} : bits;  // there is no negative zero
}

std::uint8_t encode_e8m0(double value) {
  constexpr std::uint8_t kNaN = 0xff;
  if (std::isnan(value)) return kNaN;
  if (value == 0) return 0;
  if (std::isinf(value)) return kNaN - 1;
  int exponent = 0;
  const double fraction = 2 * std::frexp(std::abs(value), &exponent);  // 1 to 2, times 2^(exponent - 1)
  return static_cast<std::uint8_t>(std::clamp(exponent - 1 + (fraction >= 1.5 ? 1 : 0), -127, 127) + 127);
}

}  // namespace

float stored_float_to_f32(DataType type, std::uint8_t bits) {
  switch (type) {
    case DataType::f4_e2m1:
      return decode<F4E2M1>(bits);
    case DataType::f8_e8m0:
      return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, bits - 127);
    default:
      if (bits == F8E4M3Fnuz::kQuiet) return std::numeric_limits<float>::quiet_NaN();
      return type == DataType::f8_e4m3fnuz ? decode<F8E4M3Fnuz>(bits) : decode<F8E5M2Fnuz>(bits);
  }
}

std::uint8_t f64_to_stored_float(DataType type, double value) {
  switch (type) {
    case DataType::f4_e2m1:
      return std::isnan(value) ? F4E2M1::kQuiet : static_cast<std::uint8_t>(encode<F4E2M1>(value));
    case DataType::f8_e8m0:
      return encode_e8m0(value);
    default:
      return type == DataType::f8_e4m3fnuz ? encode_fnuz<F8E4M3Fnuz>(value) : encode_fnuz<F8E5M2Fnuz>(value);
  }
}

}  // namespace convoy
