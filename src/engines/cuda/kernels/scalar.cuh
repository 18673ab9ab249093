// Elements of every type as doubles, by the rules of convoy/data_type.h: a store rounds once, to nearest even; integers
// and the 8-bit floats saturate. For kernels that are checked with, not for fast ones. The type numbers are those of
// enum class DataType, written by the host as TYPE_*.
#pragma once

#include "problem.h"

__device__ __forceinline__ double widen(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned all = (1u << exponent_bits) - 1;
  const bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
  const unsigned exponent = bits >> mantissa_bits & all;
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  double v;
  if (exponent == all && has_infinity) {
    v = mantissa != 0 ? nan("") : __longlong_as_double(0x7ff0000000000000ll);
  } else if (exponent == all && !has_infinity && mantissa == (1u << mantissa_bits) - 1) {
    v = nan("");
  } else if (exponent == 0) {
    v = ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    v = ldexp(static_cast<double>(mantissa | 1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -v : v;
}

// `largest`: the largest finite pattern; `overflow`: what greater values become; `quiet`: a NaN.
__device__ __forceinline__ unsigned narrow(double v, int exponent_bits, int mantissa_bits, unsigned largest,
                                           unsigned overflow, unsigned quiet) {
  const unsigned sign =
      static_cast<unsigned long long>(__double_as_longlong(v)) >> 63 << (exponent_bits + mantissa_bits);
  if (isnan(v)) return sign | quiet;
  const double size = fabs(v);
  if (size == 0) return sign;
  if (isinf(size)) return sign | overflow;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent;
  frexp(size, &exponent);                         // size = f * 2^exponent, f in [1/2, 1)
  const int least = max(exponent - 1, 1 - bias);  // below the smallest normal number the spacing stays
  const double units = rint(ldexp(size, mantissa_bits - least));
  // units is at most 2^(mantissa_bits+1); its carry runs into the exponent as it should.
  const unsigned bits = least == 1 - bias && units < (1u << mantissa_bits)
                            ? static_cast<unsigned>(units)
                            : static_cast<unsigned>(least + bias - 1 << mantissa_bits) + static_cast<unsigned>(units);
  return sign | (bits > largest ? overflow : bits);
}

template <int type>
__device__ __forceinline__ double load_double(const void* data, long long i) {
  if constexpr (type == TYPE_F64) return static_cast<const double*>(data)[i];
  if constexpr (type == TYPE_F32) return static_cast<const float*>(data)[i];
  if constexpr (type == TYPE_F16) return widen(static_cast<const unsigned short*>(data)[i], 5, 10, true);
  if constexpr (type == TYPE_BF16) return widen(static_cast<const unsigned short*>(data)[i], 8, 7, true);
  if constexpr (type == TYPE_F8_E4M3) return widen(static_cast<const unsigned char*>(data)[i], 4, 3, false);
  if constexpr (type == TYPE_F8_E5M2) return widen(static_cast<const unsigned char*>(data)[i], 5, 2, true);
  if constexpr (type == TYPE_S32) return static_cast<const int*>(data)[i];
  if constexpr (type == TYPE_S8) return static_cast<const signed char*>(data)[i];
  if constexpr (type == TYPE_U8) return static_cast<const unsigned char*>(data)[i];
  return 0;
}

__device__ __forceinline__ double saturated(double v, double low, double high) {
  if (isnan(v)) return 0;
  return fmin(fmax(rint(v), low), high);
}

template <int type>
__device__ __forceinline__ void store_double(void* data, long long i, double v) {
  if constexpr (type == TYPE_F64) static_cast<double*>(data)[i] = v;
  if constexpr (type == TYPE_F32) static_cast<float*>(data)[i] = static_cast<float>(v);
  if constexpr (type == TYPE_F16) {
    static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(narrow(v, 5, 10, 0x7bff, 0x7c00, 0x7e00));
  }
  if constexpr (type == TYPE_BF16) {
    static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(narrow(v, 8, 7, 0x7f7f, 0x7f80, 0x7fc0));
  }
  if constexpr (type == TYPE_F8_E4M3) {
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(narrow(v, 4, 3, 0x7e, 0x7e, 0x7f));
  }
  if constexpr (type == TYPE_F8_E5M2) {
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(narrow(v, 5, 2, 0x7b, 0x7b, 0x7e));
  }
  if constexpr (type == TYPE_S32)
    static_cast<int*>(data)[i] = static_cast<int>(saturated(v, -2147483648.0, 2147483647.0));
  if constexpr (type == TYPE_S8) static_cast<signed char*>(data)[i] = static_cast<signed char>(saturated(v, -128, 127));
  if constexpr (type == TYPE_U8)
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(saturated(v, 0, 255));
}
