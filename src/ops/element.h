// C++ types for the elements of a tensor, and the dispatch from a DataType to code instantiated for its C++ type.
#pragma once

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "convoy/data_type.h"

namespace convoy::ops {

// A float of 16 bits or fewer: stored as bits, converts to float (exactly) and from float and double (rounded once).
template <DataType kType, class Bits>
struct SmallFloat {
  Bits bits;
  SmallFloat() = default;
  template <class T>
  requires std::is_arithmetic_v<T> SmallFloat(T value) : bits(from(value)) {}
  operator float() const {
    if constexpr (kType == DataType::f16) return f16_to_f32(bits);
    if constexpr (kType == DataType::bf16) return bf16_to_f32(bits);
    if constexpr (kType == DataType::f8_e4m3) return f8_e4m3_to_f32(bits);
    if constexpr (kType == DataType::f8_e5m2) return f8_e5m2_to_f32(bits);
    if constexpr (kType > DataType::boolean) return stored_float_to_f32(kType, bits);
  }

 private:
  template <class T>
  static Bits from(T value) {
    constexpr bool is_float = std::is_same_v<T, float>;
    if constexpr (kType == DataType::f16) return is_float ? f32_to_f16(float(value)) : f64_to_f16(double(value));
    if constexpr (kType == DataType::bf16) return is_float ? f32_to_bf16(float(value)) : f64_to_bf16(double(value));
    if constexpr (kType == DataType::f8_e4m3) {
      return is_float ? f32_to_f8_e4m3(float(value)) : f64_to_f8_e4m3(double(value));
    }
    if constexpr (kType == DataType::f8_e5m2) {
      return is_float ? f32_to_f8_e5m2(float(value)) : f64_to_f8_e5m2(double(value));
    }
    if constexpr (kType > DataType::boolean) return f64_to_stored_float(kType, double(value));
  }
};
using F16 = SmallFloat<DataType::f16, std::uint16_t>;
using BF16 = SmallFloat<DataType::bf16, std::uint16_t>;
using F8E4M3 = SmallFloat<DataType::f8_e4m3, std::uint8_t>;
using F8E5M2 = SmallFloat<DataType::f8_e5m2, std::uint8_t>;
using F4E2M1 = SmallFloat<DataType::f4_e2m1, std::uint8_t>;
using F8E4M3Fnuz = SmallFloat<DataType::f8_e4m3fnuz, std::uint8_t>;
using F8E5M2Fnuz = SmallFloat<DataType::f8_e5m2fnuz, std::uint8_t>;
using F8E8M0 = SmallFloat<DataType::f8_e8m0, std::uint8_t>;

// An integer of fewer than 8 bits in a byte; from a wider one it keeps the lowest bits.
template <class Byte, int kBits>
struct SmallInteger {
  Byte value;
  SmallInteger() = default;
  template <class T>
  requires std::is_integral_v<T> SmallInteger(T wide) {
    constexpr int kRange = 1 << kBits, kSign = std::is_signed_v<Byte> ? kRange / 2 : 0;
    const int low = static_cast<int>(wide) & (kRange - 1);
    value = static_cast<Byte>((low ^ kSign) - kSign);
  }
  operator Byte() const { return value; }
};
using S4 = SmallInteger<std::int8_t, 4>;
using U4 = SmallInteger<std::uint8_t, 4>;
using S2 = SmallInteger<std::int8_t, 2>;
using U2 = SmallInteger<std::uint8_t, 2>;

template <class T>
constexpr bool is_small_float = false;
template <DataType kType, class Bits>
constexpr bool is_small_float<SmallFloat<kType, Bits>> = true;
template <class T>
constexpr bool is_float_element = is_small_float<T> || std::is_floating_point_v<T>;
template <class T>
constexpr bool is_half = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;  // of kHalves

// What values of T are computed in: float for the small floats, T otherwise.
template <class T>
using Compute = std::conditional_t<is_small_float<T>, float, T>;

// Sets of data types, for checks.
using TypeSet = std::uint32_t;
constexpr TypeSet only(DataType type) { return TypeSet{1} << static_cast<int>(type); }
constexpr TypeSet kFloats = only(DataType::f64) | only(DataType::f32) | only(DataType::f16) | only(DataType::bf16) |
                            only(DataType::f8_e4m3) | only(DataType::f8_e5m2);
constexpr TypeSet kHalves = only(DataType::f16) | only(DataType::bf16);
constexpr TypeSet kSignedIntegers =
    only(DataType::s64) | only(DataType::s32) | only(DataType::s16) | only(DataType::s8);
constexpr TypeSet kUnsignedIntegers =
    only(DataType::u64) | only(DataType::u32) | only(DataType::u16) | only(DataType::u8);
constexpr TypeSet kIntegers = kSignedIntegers | kUnsignedIntegers;
constexpr TypeSet kNumeric = kFloats | kIntegers;
constexpr TypeSet kAnyType = kNumeric | only(DataType::boolean);
// Those that are only stored, moved and converted.
constexpr TypeSet kStoredIntegers = only(DataType::s4) | only(DataType::u4) | only(DataType::s2) | only(DataType::u2);
constexpr TypeSet kStoredFloats =
    only(DataType::f4_e2m1) | only(DataType::f8_e4m3fnuz) | only(DataType::f8_e5m2fnuz) | only(DataType::f8_e8m0);
constexpr TypeSet kEveryType = kAnyType | kStoredIntegers | kStoredFloats;
constexpr TypeSet kIndices = only(DataType::s64) | only(DataType::s32);
constexpr bool contains(TypeSet set, DataType type) { return (set & only(type)) != 0; }

template <class T>
struct Tag {
  using type = T;
};

// Calls f(Tag<T>) for the C++ type T of `type`, which must be in kSet; only the types of kSet are instantiated.
//   dispatch<kFloats>(desc.type, [&]<class T>(Tag<T>) { ... static_cast<const T*>(data) ... });
template <TypeSet kSet, class F>
decltype(auto) dispatch(DataType type, F&& f) {
  assert(contains(kSet, type));
#define CONVOY_DISPATCH_CASE(name, T)               \
  if constexpr (contains(kSet, DataType::name)) {   \
    if (type == DataType::name) return f(Tag<T>{}); \
  }
  CONVOY_DISPATCH_CASE(f32, float)
  CONVOY_DISPATCH_CASE(f64, double)
  CONVOY_DISPATCH_CASE(f16, F16)
  CONVOY_DISPATCH_CASE(bf16, BF16)
  CONVOY_DISPATCH_CASE(f8_e4m3, F8E4M3)
  CONVOY_DISPATCH_CASE(f8_e5m2, F8E5M2)
  CONVOY_DISPATCH_CASE(s64, std::int64_t)
  CONVOY_DISPATCH_CASE(s32, std::int32_t)
  CONVOY_DISPATCH_CASE(s16, std::int16_t)
  CONVOY_DISPATCH_CASE(s8, std::int8_t)
  CONVOY_DISPATCH_CASE(u64, std::uint64_t)
  CONVOY_DISPATCH_CASE(u32, std::uint32_t)
  CONVOY_DISPATCH_CASE(u16, std::uint16_t)
  CONVOY_DISPATCH_CASE(u8, std::uint8_t)
  CONVOY_DISPATCH_CASE(boolean, bool)
  CONVOY_DISPATCH_CASE(s4, S4)
  CONVOY_DISPATCH_CASE(u4, U4)
  CONVOY_DISPATCH_CASE(s2, S2)
  CONVOY_DISPATCH_CASE(u2, U2)
  CONVOY_DISPATCH_CASE(f4_e2m1, F4E2M1)
  CONVOY_DISPATCH_CASE(f8_e4m3fnuz, F8E4M3Fnuz)
  CONVOY_DISPATCH_CASE(f8_e5m2fnuz, F8E5M2Fnuz)
  CONVOY_DISPATCH_CASE(f8_e8m0, F8E8M0)
#undef CONVOY_DISPATCH_CASE
  __builtin_unreachable();
}

// Calls f(Tag<T>) for an unsigned integer T of that many bytes (1, 2, 4 or 8): operators that only move elements.
template <class F>
decltype(auto) dispatch_bytes(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(Tag<std::uint8_t>{});
    case 2:
      return f(Tag<std::uint16_t>{});
    case 4:
      return f(Tag<std::uint32_t>{});
    default:
      assert(bytes == 8);
      return f(Tag<std::uint64_t>{});
  }
}

}  // namespace convoy::ops
