#include "core/float_formats.h"

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

}  // namespace convoy
