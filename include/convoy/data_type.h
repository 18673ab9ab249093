// Element types, their names, sizes and conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "convoy/result.h"

namespace convoy {

// Convolutions take f64 to f8_e5m2, s8 and u8 (see convolution.h); the others occur in networks only, and those behind
// boolean are stored, moved and converted, never computed with. Each element has bytes of its own, one where it is
// narrower than that: ONNX's files pack two or four into a byte.
enum class DataType : std::uint8_t {
  f64,
  f32,
  f16,      // IEEE 754 binary16
  bf16,     // the upper half of binary32
  f8_e4m3,  // OCP FP8 E4M3: no infinities, saturates to +-448
  f8_e5m2,  // OCP FP8 E5M2: saturates to +-57344
  s64,
  s32,
  s16,
  s8,
  u64,
  u32,
  u16,
  u8,
  boolean,      // one byte, 0 or 1
  s4,           // -8..7
  u4,           // 0..15
  s2,           // -2..1
  u2,           // 0..3
  f4_e2m1,      // OCP MX FP4: no infinities, no NaN, saturates to +-6
  f8_e4m3fnuz,  // no infinities, one zero, NaN is 0x80, saturates to +-240
  f8_e5m2fnuz,  // likewise, +-57344
  f8_e8m0,      // OCP MX E8M0: 2^-127 to 2^127, no sign; 0xff is NaN
};

std::size_t size_of(DataType type);       // bytes an element
std::string_view name_of(DataType type);  // "f32", "f8_e4m3", "bool", ...
Result<DataType> parse_data_type(std::string_view name);
bool is_floating(DataType type);
bool is_integer(DataType type);      // boolean is not an integer
bool is_stored_only(DataType type);  // s4 and all behind it

// Bit-exact conversions. To a narrower float: round to nearest, ties to even. f16 and bf16 overflow to infinity
// (IEEE); the f8 types saturate to their largest finite value (OCP 8-bit floating point, saturating mode), and
// NaN stays NaN.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float f8_e4m3_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f8_e4m3(float value);
float f8_e5m2_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f8_e5m2(float value);
// f64 to a 16- or 8-bit float rounds once (never through f32, which would round twice).
std::uint16_t f64_to_f16(double value);
std::uint16_t f64_to_bf16(double value);
std::uint8_t f64_to_f8_e4m3(double value);
std::uint8_t f64_to_f8_e5m2(double value);

// The same of f4_e2m1, f8_e4m3fnuz, f8_e5m2fnuz and f8_e8m0. f4_e2m1 has no NaN: it becomes the negative zero, as in
// ml_dtypes. f8_e8m0 takes the size of a value (0 becomes its least) and goes to the nearest power of two.
float stored_float_to_f32(DataType type, std::uint8_t bits);
std::uint8_t f64_to_stored_float(DataType type, double value);

// Element `index` of an array of `type`, as a double (exact but for 64-bit integers beyond 2^53), and back: floats
// as above; integers round to nearest even and saturate, NaN becomes 0; boolean stores value != 0.
double load_as_double(DataType type, const void* data, std::int64_t index);
void store_from_double(DataType type, void* data, std::int64_t index, double value);

}  // namespace convoy
