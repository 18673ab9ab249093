// Element types on the device: loads, stores and conversions of one to eight neighbouring elements.
// Needs no header of CUDA's: the conversions are PTX (ptx.cuh). `problem.h` is generated for each kernel and says ELEMENT.
#pragma once

#include "problem.h"
#include "ptx.cuh"

struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

template <class A, class B>
struct same_type {
  static constexpr bool value = false;
};
template <class A>
struct same_type<A, A> {
  static constexpr bool value = true;
};

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(double v) { return static_cast<float>(v); }
__device__ __forceinline__ float to_float(f16 v) { return cvt_f32_f16(v.bits); }
__device__ __forceinline__ float to_float(bf16 v) { return __uint_as_float(static_cast<unsigned>(v.bits) << 16); }

template <class T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (same_type<T, f16>::value) {
    return f16{cvt_f16_f32(v)};
  } else if constexpr (same_type<T, bf16>::value) {
    return bf16{cvt_bf16_f32(v)};
  } else {
    return static_cast<T>(v);
  }
}

// The register image of `bytes` bytes.
template <int bytes>
struct RawOf;
struct Half {
  unsigned bits;  // the upper 16 are zero
};
template <>
struct RawOf<2> {
  using type = Half;
};
template <>
struct RawOf<4> {
  using type = unsigned;
};
template <>
struct RawOf<8> {
  using type = uint2;
};
template <>
struct RawOf<16> {
  using type = uint4;
};

template <class T, int V>
using Raw = typename RawOf<static_cast<int>(sizeof(T)) * V>::type;

__device__ __forceinline__ void clear(Half& r) { r.bits = 0; }
__device__ __forceinline__ void clear(unsigned& r) { r = 0; }
__device__ __forceinline__ void clear(uint2& r) { r = make_uint2(0, 0); }
__device__ __forceinline__ void clear(uint4& r) { r = make_uint4(0, 0, 0, 0); }

__device__ __forceinline__ unsigned word(Half r, int) { return r.bits; }
__device__ __forceinline__ unsigned word(unsigned r, int) { return r; }
__device__ __forceinline__ unsigned word(uint2 r, int i) { return i == 0 ? r.x : r.y; }
__device__ __forceinline__ unsigned word(uint4 r, int i) { return i == 0 ? r.x : i == 1 ? r.y : i == 2 ? r.z : r.w; }
__device__ __forceinline__ void set_word(Half& r, int, unsigned v) { r.bits = v; }
__device__ __forceinline__ void set_word(unsigned& r, int, unsigned v) { r = v; }
__device__ __forceinline__ void set_word(uint2& r, int i, unsigned v) { (i == 0 ? r.x : r.y) = v; }
__device__ __forceinline__ void set_word(uint4& r, int i, unsigned v) {
  (i == 0 ? r.x : i == 1 ? r.y : i == 2 ? r.z : r.w) = v;
}

// Both halves of a word of 16-bit elements as floats.
template <class T>
__device__ __forceinline__ float half_to_float(unsigned w, int half) {
  if constexpr (same_type<T, bf16>::value) {
    return __uint_as_float(half == 0 ? w << 16 : w & 0xffff0000u);
  } else {
    return to_float(f16{static_cast<unsigned short>(half == 0 ? w : w >> 16)});
  }
}
template <class T>
__device__ __forceinline__ unsigned pack_halves(float low, float high) {
  return same_type<T, bf16>::value ? cvt_bf16x2_f32(high, low) : cvt_f16x2_f32(high, low);
}

template <class T, int V>
__device__ __forceinline__ void unpack(const Raw<T, V>& raw, float (&v)[V]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = __uint_as_float(word(raw, i));
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = half_to_float<T>(word(raw, i / 2), i % 2);
  }
}

template <class T, int V>
__device__ __forceinline__ Raw<T, V> pack(const float (&v)[V]) {
  Raw<T, V> raw;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < V; ++i) set_word(raw, i, __float_as_uint(v[i]));
  } else if constexpr (V == 1) {
    raw.bits = from_float<T>(v[0]).bits;
  } else {
#pragma unroll
    for (int i = 0; i < V; i += 2) set_word(raw, i / 2, pack_halves<T>(v[i], v[i + 1]));
  }
  return raw;
}

// An address the compiler no longer looks behind: it would otherwise compute it again for each predicated load.
__device__ __forceinline__ const char* fixed_address(const void* p) {
  const char* address = static_cast<const char*>(p);
  asm("" : "+l"(address));
  return address;
}

// V neighbouring elements at an address that is a multiple of their size, from global memory through the read-only
// path.
template <class T, int V>
__device__ __forceinline__ Raw<T, V> load_raw(const char* p) {
  if constexpr (sizeof(T) * V == 2) {
    return Half{load_global_nc_u16(p)};
  } else {
    return __ldg(reinterpret_cast<const Raw<T, V>*>(p));
  }
}
template <class T, int V>
__device__ __forceinline__ void store_raw(T* p, const Raw<T, V>& raw) {
  if constexpr (sizeof(T) * V == 2) {
    *reinterpret_cast<unsigned short*>(p) = static_cast<unsigned short>(raw.bits);
  } else {
    *reinterpret_cast<Raw<T, V>*>(p) = raw;
  }
}

// The same from memory that the kernel also writes.
template <class T, int V>
__device__ __forceinline__ Raw<T, V> load_mutable(const T* p) {
  if constexpr (sizeof(T) * V == 2) {
    return Half{*reinterpret_cast<const unsigned short*>(p)};
  } else {
    return *reinterpret_cast<const Raw<T, V>*>(p);
  }
}

template <class T>
__device__ __forceinline__ float load_float(const T* p) {
  float v[1];
  unpack<T, 1>(load_raw<T, 1>(reinterpret_cast<const char*>(p)), v);
  return v[0];
}
