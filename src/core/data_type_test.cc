#include "convoy/data_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace convoy {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A narrow format as its conversion functions; `max_finite` is the largest positive finite pattern.
struct Format {
  const char* name;
  std::uint32_t patterns, max_finite, overflow, inf;
  float (*decode)(std::uint32_t);
  std::uint32_t (*encode)(float);
  std::uint32_t (*encode_double)(double);
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"f16", 1u << 16, 0x7bff, 0x7c00, 0x7c00, [](std::uint32_t b) { return f16_to_f32(std::uint16_t(b)); },
       [](float v) { return std::uint32_t{f32_to_f16(v)}; }, [](double v) { return std::uint32_t{f64_to_f16(v)}; }},
      {"bf16", 1u << 16, 0x7f7f, 0x7f80, 0x7f80, [](std::uint32_t b) { return bf16_to_f32(std::uint16_t(b)); },
       [](float v) { return std::uint32_t{f32_to_bf16(v)}; }, [](double v) { return std::uint32_t{f64_to_bf16(v)}; }},
      {"f8_e4m3", 1u << 8, 0x7e, 0x7e, 0, [](std::uint32_t b) { return f8_e4m3_to_f32(std::uint8_t(b)); },
       [](float v) { return std::uint32_t{f32_to_f8_e4m3(v)}; },
       [](double v) { return std::uint32_t{f64_to_f8_e4m3(v)}; }},
      {"f8_e5m2", 1u << 8, 0x7b, 0x7b, 0x7c, [](std::uint32_t b) { return f8_e5m2_to_f32(std::uint8_t(b)); },
       [](float v) { return std::uint32_t{f32_to_f8_e5m2(v)}; },
       [](double v) { return std::uint32_t{f64_to_f8_e5m2(v)}; }},
  };
  return all;
}

TEST(FloatFormats, EveryPatternRoundTrips) {
  for (const Format& f : formats()) {
    const std::uint32_t sign = f.patterns / 2;
    for (std::uint32_t bits = 0; bits < f.patterns; ++bits) {
      const std::uint32_t magnitude = bits & (sign - 1);
      const float value = f.decode(bits);
      if (magnitude <= f.max_finite) {
        ASSERT_TRUE(std::isfinite(value)) << f.name << " " << bits;
        ASSERT_EQ(f.encode(value), bits) << f.name;
        ASSERT_EQ(f.encode_double(value), bits) << f.name;
        ASSERT_EQ(std::signbit(value), bits >= sign) << f.name << " " << bits;
      } else if (magnitude == f.inf) {
        ASSERT_EQ(value, bits >= sign ? -kInf : kInf) << f.name << " " << bits;
      } else {
        ASSERT_TRUE(std::isnan(value)) << f.name << " " << bits;
        ASSERT_TRUE(std::isnan(f.decode(f.encode(value)))) << f.name << " " << bits;
        ASSERT_TRUE(std::isnan(f.decode(f.encode_double(value)))) << f.name << " " << bits;
      }
    }
  }
}

TEST(FloatFormats, PatternsAreInOrderOfValue) {
  for (const Format& f : formats()) {
    for (std::uint32_t bits = 0; bits < f.max_finite; ++bits) ASSERT_LT(f.decode(bits), f.decode(bits + 1)) << f.name;
  }
}

TEST(FloatFormats, HalfwayGoesToEvenAndBesideItToTheNearest) {
  for (const Format& f : formats()) {
    const std::uint32_t sign = f.patterns / 2;
    for (std::uint32_t bits = 0; bits < f.max_finite; ++bits) {
      const double low = f.decode(bits), high = f.decode(bits + 1), half = (low + high) / 2;
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(f.encode_double(half), even) << f.name << " above " << bits;
      ASSERT_EQ(f.encode_double(-half), sign | even) << f.name << " above " << bits;
      // One double below or above a tie: a conversion through f32 would round twice and see the tie.
      ASSERT_EQ(f.encode_double(std::nextafter(half, 0.0)), bits) << f.name << " above " << bits;
      ASSERT_EQ(f.encode_double(std::nextafter(half, 1e300)), bits + 1) << f.name << " above " << bits;
      const auto single = static_cast<float>(half);
      ASSERT_EQ(single, half);  // the halfway points of all formats are f32 values
      ASSERT_EQ(f.encode(single), even) << f.name << " above " << bits;
      ASSERT_EQ(f.encode(std::nextafter(single, 0.0f)), bits) << f.name << " above " << bits;
      ASSERT_EQ(f.encode(std::nextafter(single, kInf)), bits + 1) << f.name << " above " << bits;
    }
  }
}

TEST(FloatFormats, Overflow) {
  for (const Format& f : formats()) {
    const double most = f.decode(f.max_finite), step = most - f.decode(f.max_finite - 1);
    EXPECT_EQ(f.encode_double(std::nextafter(most + step / 2, 0.0)), f.max_finite) << f.name;
    EXPECT_EQ(f.encode_double(most + step / 2), f.overflow) << f.name;
    EXPECT_EQ(f.encode_double(1e300), f.overflow) << f.name;
    EXPECT_EQ(f.encode(std::numeric_limits<float>::max()), f.overflow) << f.name;
    EXPECT_EQ(f.encode(kInf), f.overflow) << f.name;
    EXPECT_EQ(f.encode(-kInf), f.patterns / 2 + f.overflow) << f.name;
    EXPECT_EQ(f.encode_double(1e-320), 0u) << f.name;
    EXPECT_EQ(f.encode_double(-1e-320), f.patterns / 2) << f.name;
    EXPECT_TRUE(std::isnan(f.decode(f.encode(std::nanf(""))))) << f.name;
    EXPECT_TRUE(std::isnan(f.decode(f.encode_double(std::nan(""))))) << f.name;
  }
}

// Values from the formats' definitions: IEEE 754 and OCP 8-bit floating point, tables 1 and 2.
TEST(FloatFormats, KnownValues) {
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(bf16_to_f32(0x3f80), 1.0f);
  EXPECT_EQ(bf16_to_f32(0x0001), 0x1p-133f);
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7f)));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0xff)));
  EXPECT_EQ(f8_e5m2_to_f32(0x7b), 57344.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x04), 0x1p-14f);
  EXPECT_EQ(f8_e5m2_to_f32(0x01), 0x1p-16f);
  EXPECT_EQ(f8_e5m2_to_f32(0xfc), -kInf);
  EXPECT_EQ(f32_to_f8_e4m3(464.0f), 0x7e);  // halfway between 448 and what would be 480
  EXPECT_EQ(f32_to_f8_e4m3(1e9f), 0x7e);
  EXPECT_EQ(f32_to_f8_e5m2(-1e9f), 0xfb);
}

// Values from OCP MX 1.0 and ONNX's page on float stored in 8 bits.
TEST(StoredFloats, KnownValues) {
  EXPECT_EQ(stored_float_to_f32(DataType::f4_e2m1, 0x07), 6.0f);
  EXPECT_EQ(stored_float_to_f32(DataType::f4_e2m1, 0x09), -0.5f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e4m3fnuz, 0x7f), 240.0f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e4m3fnuz, 0x01), 0x1p-10f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e5m2fnuz, 0xff), -57344.0f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e5m2fnuz, 0x01), 0x1p-17f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e8m0, 0), 0x1p-127f);
  EXPECT_EQ(stored_float_to_f32(DataType::f8_e8m0, 254), 0x1p127f);
  EXPECT_EQ(f64_to_stored_float(DataType::f4_e2m1, -1e9), 0x0f);
  EXPECT_EQ(f64_to_stored_float(DataType::f4_e2m1, 2.5), 0x04);  // halfway to 3, whose significand is odd
  EXPECT_EQ(f64_to_stored_float(DataType::f8_e4m3fnuz, -0.0), 0);
  EXPECT_EQ(f64_to_stored_float(DataType::f8_e4m3fnuz, 1e9), 0x7f);
  EXPECT_EQ(f64_to_stored_float(DataType::f8_e8m0, 2.99), 128);
  EXPECT_EQ(f64_to_stored_float(DataType::f8_e8m0, -3), 129);
  EXPECT_EQ(f64_to_stored_float(DataType::f8_e8m0, 0), 0);
}

TEST(StoredFloats, EveryPatternRoundTrips) {
  const std::pair<DataType, int> types[] = {
      {DataType::f4_e2m1, 16}, {DataType::f8_e4m3fnuz, 256}, {DataType::f8_e5m2fnuz, 256}, {DataType::f8_e8m0, 256}};
  for (const auto& [type, patterns] : types) {
    int nans = 0;
    for (int bits = 0; bits < patterns; ++bits) {
      const double value = load_as_double(type, std::array{static_cast<std::uint8_t>(bits)}.data(), 0);
      nans += std::isnan(value) ? 1 : 0;
      std::uint8_t stored = 0;
      store_from_double(type, &stored, 0, value);
      EXPECT_EQ(stored, bits) << name_of(type) << " " << value;
    }
    EXPECT_EQ(nans, type == DataType::f4_e2m1 ? 0 : 1) << name_of(type);
  }
}

TEST(StoredIntegers, Saturate) {
  const auto stored_as = [](DataType type, double value) {
    std::int8_t element = 0;
    store_from_double(type, &element, 0, value);
    return load_as_double(type, &element, 0);
  };
  const std::tuple<DataType, double, double> bounds[] = {
      {DataType::s4, -8, 7}, {DataType::u4, 0, 15}, {DataType::s2, -2, 1}, {DataType::u2, 0, 3}};
  for (const auto& [type, low, high] : bounds) {
    EXPECT_EQ(stored_as(type, -100), low) << name_of(type);
    EXPECT_EQ(stored_as(type, 100), high) << name_of(type);
    EXPECT_EQ(stored_as(type, high - 0.4), high) << name_of(type);
    EXPECT_EQ(stored_as(type, NAN), 0) << name_of(type);
  }
}

#ifdef __FLT16_MAX__
// The compiler's own conversions, an independent implementation.
TEST(FloatFormats, F16AgreesWithTheCompiler) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_to_f16(value), std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << value;
  }
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits)));
    if (!std::isnan(expected)) {
      ASSERT_EQ(f16_to_f32(static_cast<std::uint16_t>(bits)), expected);
    }
  }
}
#endif

TEST(DataType, NamesAndSizes) {
  const std::vector<std::size_t> sizes = {8, 4, 2, 2, 1, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(size_of(type), sizes[i]) << name_of(type);
    const auto parsed = parse_data_type(name_of(type));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, type);
    EXPECT_EQ(is_floating(type), i < 6 || type >= DataType::f4_e2m1);
    EXPECT_EQ(is_integer(type), !is_floating(type) && type != DataType::boolean);
    EXPECT_EQ(is_stored_only(type), i >= 15);
  }
  const auto unknown = parse_data_type("f31");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("'f31'"), std::string::npos) << unknown.error().message;
  EXPECT_NE(unknown.error().message.find("bf16"), std::string::npos) << unknown.error().message;
}

template <class T>
T stored(DataType type, double value) {
  T result[3] = {};
  store_from_double(type, result, 1, value);
  EXPECT_EQ(result[0], T{});
  EXPECT_EQ(result[2], T{});
  return result[1];
}

template <class T>
void check_integer(DataType type) {
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(stored<T>(type, 2.5), 2) << name_of(type);
  EXPECT_EQ(stored<T>(type, 3.5), 4) << name_of(type);
  EXPECT_EQ(stored<T>(type, 0.5), 0) << name_of(type);
  EXPECT_EQ(stored<T>(type, -0.5), 0) << name_of(type);
  EXPECT_EQ(stored<T>(type, -1.5), Limits::is_signed ? T(-2) : T(0)) << name_of(type);
  EXPECT_EQ(stored<T>(type, 1e300), Limits::max()) << name_of(type);
  EXPECT_EQ(stored<T>(type, -1e300), Limits::min()) << name_of(type);
  EXPECT_EQ(stored<T>(type, std::ldexp(1.0, Limits::digits)), Limits::max()) << name_of(type);
  EXPECT_EQ(stored<T>(type, std::numeric_limits<double>::infinity()), Limits::max()) << name_of(type);
  EXPECT_EQ(stored<T>(type, std::nan("")), 0) << name_of(type);
  const T values[2] = {0, 100};
  EXPECT_EQ(load_as_double(type, values, 1), 100.0) << name_of(type);
}

TEST(DataType, IntegersRoundToEvenAndSaturate) {
  check_integer<std::int8_t>(DataType::s8);
  check_integer<std::uint8_t>(DataType::u8);
  check_integer<std::int16_t>(DataType::s16);
  check_integer<std::uint16_t>(DataType::u16);
  check_integer<std::int32_t>(DataType::s32);
  check_integer<std::uint32_t>(DataType::u32);
  check_integer<std::int64_t>(DataType::s64);
  check_integer<std::uint64_t>(DataType::u64);
  EXPECT_EQ(stored<std::int8_t>(DataType::s8, 127.5), 127);
  EXPECT_EQ(stored<std::int8_t>(DataType::s8, -128.5), -128);
  EXPECT_EQ(stored<std::uint8_t>(DataType::u8, 254.5), 254);
}

TEST(DataType, LoadsAndStoresTheFloats) {
  EXPECT_EQ(stored<double>(DataType::f64, 0.1), 0.1);
  EXPECT_EQ(stored<float>(DataType::f32, 0.1), 0.1f);
  EXPECT_EQ(stored<std::uint16_t>(DataType::f16, 1.0), 0x3c00);
  EXPECT_EQ(stored<std::uint16_t>(DataType::bf16, 1.0), 0x3f80);
  EXPECT_EQ(stored<std::uint8_t>(DataType::f8_e4m3, 1.0), 0x38);
  EXPECT_EQ(stored<std::uint8_t>(DataType::f8_e5m2, 1.0), 0x3c);
  EXPECT_EQ(stored<std::uint8_t>(DataType::boolean, -0.25), 1);
  EXPECT_EQ(stored<std::uint8_t>(DataType::boolean, 0.0), 0);
  const std::uint16_t half = 0x3c00;
  EXPECT_EQ(load_as_double(DataType::f16, &half, 0), 1.0);
  const std::uint8_t three = 3;
  EXPECT_EQ(load_as_double(DataType::boolean, &three, 0), 1.0);
}

}  // namespace
}  // namespace convoy
