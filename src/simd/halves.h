// 16-bit floats as f32 lanes and back, in vectors of the width that the unit is compiled for (simd/simd.h): the bits
// that core/float_formats.h gives one by one, rounded to nearest even, NaN quiet with its payload.
#pragma once

#include <cstring>

#include "convoy/data_type.h"
#include "simd/simd.h"
#if !defined(__AVX512F__)
#include "simd/avx2_elements.h"
#endif

namespace convoy::cpu::CONVOY_CPU_ISA {

struct Two {
  Vf low, high;
};

// How elements of a type are loaded and stored: two vectors, one, or the first `lanes` of one, 0 < lanes < kLanes. Two
// vectors "unordered" have the elements in whatever order is cheapest, for what is done to each element alone.
struct Floats {
  using Element = float;
  CONVOY_SIMD Two load_two(const float* p) { return {load(p), load(p + kLanes)}; }
  CONVOY_SIMD void store_two(float* p, Two v) {
    store(p, v.low);
    store(p + kLanes, v.high);
  }
  CONVOY_SIMD Two load_unordered(const float* p) { return load_two(p); }
  CONVOY_SIMD void store_unordered(float* p, Two v) { store_two(p, v); }
  CONVOY_SIMD Vf load(const float* p) { return CONVOY_CPU_ISA::load(p); }
  CONVOY_SIMD Vf load(const float* p, int lanes) { return CONVOY_CPU_ISA::load(p, first_lanes(lanes)); }
  CONVOY_SIMD float scalar(const float* p) { return *p; }
  CONVOY_SIMD void store(float* p, Vf v) { CONVOY_CPU_ISA::store(p, v); }
  CONVOY_SIMD void store(float* p, Vf v, int lanes) { CONVOY_CPU_ISA::store(p, v, first_lanes(lanes)); }
};

#if defined(__AVX512F__)

struct F16Lanes {
  static constexpr bool kPairs = false;
  CONVOY_SIMD Vf widen(__m256i v) { return _mm512_cvtph_ps(v); }
  CONVOY_SIMD __m256i narrow(Vf v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
};

struct Bf16Lanes {
  // Of 32 bits with two of them a shift and a mask make the even one and the odd one, a shift and a blend put them
  // back.
  static constexpr bool kPairs = true;
  CONVOY_SIMD Vf widen(__m256i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }
  CONVOY_SIMD __m256i narrow(Vf v) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(v), 16)); }
  // The upper halves are what the lanes are as bf16, of those that are no NaN.
  CONVOY_SIMD Vi nearest(Vf v) {
    const Vi bits = _mm512_castps_si512(v);
    const Lanes odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const Vi below = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_add_epi32(below, odd, bits, _mm512_set1_epi32(0x8000));
  }
  CONVOY_SIMD Vi rounded(Vf v) {
    const Mask is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(nearest(v), is_nan, _mm512_castps_si512(v), _mm512_set1_epi32(0x400000));
  }
};

template <class Lanes16>
struct Halves {
  using Element = std::uint16_t;
  CONVOY_SIMD Two load_two(const std::uint16_t* p) { return {load(p), load(p + kLanes)}; }
  CONVOY_SIMD void store_two(std::uint16_t* p, Two v) {
    store(p, v.low);
    store(p + kLanes, v.high);
  }
  CONVOY_SIMD Two load_unordered(const std::uint16_t* p) {
    if constexpr (!Lanes16::kPairs) return load_two(p);
    const __m512i v = _mm512_loadu_si512(p);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(v, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000U))))};
  }
  CONVOY_SIMD void store_unordered(std::uint16_t* p, Two v) {
    if constexpr (!Lanes16::kPairs) {
      store_two(p, v);
    } else {
      // One comparison finds what almost never is there.
      const bool some_nan = _mm512_cmp_ps_mask(v.low, v.high, _CMP_UNORD_Q) != 0;
      const Vi even = __builtin_expect(some_nan, 0) ? Lanes16::rounded(v.low) : Lanes16::nearest(v.low);
      const Vi odd = __builtin_expect(some_nan, 0) ? Lanes16::rounded(v.high) : Lanes16::nearest(v.high);
      _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd));
    }
  }
  CONVOY_SIMD Vf load(const std::uint16_t* p) {
    return Lanes16::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  CONVOY_SIMD Vf load(const std::uint16_t* p, int lanes) {
    return Lanes16::widen(_mm256_maskz_loadu_epi16(first_lanes(lanes), p));
  }
  CONVOY_SIMD float scalar(const std::uint16_t* p) { return _mm512_cvtss_f32(load(p, 1)); }
  CONVOY_SIMD void store(std::uint16_t* p, Vf v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Lanes16::narrow(v));
  }
  CONVOY_SIMD void store(std::uint16_t* p, Vf v, int lanes) {
    _mm256_mask_storeu_epi16(p, first_lanes(lanes), Lanes16::narrow(v));
  }
};

#else

using F16Lanes = convoy::avx2::F16;
using Bf16Lanes = convoy::avx2::Bf16;

template <class Lanes16>
struct Halves {
  using Element = std::uint16_t;
  CONVOY_SIMD Two load_two(const std::uint16_t* p) {
    Two v;
    Lanes16::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), v.low, v.high);
    return v;
  }
  CONVOY_SIMD void store_two(std::uint16_t* p, Two v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Lanes16::narrow(v.low, v.high));
  }
  CONVOY_SIMD Two load_unordered(const std::uint16_t* p) {
    Two v;
    Lanes16::widen_unordered(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), v.low, v.high);
    return v;
  }
  CONVOY_SIMD void store_unordered(std::uint16_t* p, Two v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Lanes16::narrow_unordered(v.low, v.high));
  }
  CONVOY_SIMD Vf load(const std::uint16_t* p) {
    return Lanes16::widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // Pieces of 64, 32 or 16 bits, of which the last may reach back over the first.
  CONVOY_SIMD Vf load(const std::uint16_t* p, int lanes) {
    std::uint64_t low = 0, high = 0;
    if (lanes >= 4) {
      std::memcpy(&low, p, sizeof(low));
      std::memcpy(&high, p + lanes - 4, sizeof(high));
      high = high >> (8 * (8 - lanes)) >> (8 * (8 - lanes));
    } else if (lanes >= 2) {
      std::memcpy(&low, p, sizeof(std::uint32_t));
      low |= std::uint64_t{p[lanes - 1]} << (16 * (lanes - 1));
    } else if (lanes == 1) {
      low = *p;
    }
    return Lanes16::widen(_mm_set_epi64x(static_cast<std::int64_t>(high), static_cast<std::int64_t>(low)));
  }
  CONVOY_SIMD float scalar(const std::uint16_t* p) { return _mm256_cvtss_f32(load(p, 1)); }
  CONVOY_SIMD void store(std::uint16_t* p, Vf v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Lanes16::narrow(v));
  }
  CONVOY_SIMD void store(std::uint16_t* p, Vf v, int lanes) {
    const __m128i made = Lanes16::narrow(v);
    const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(made)),
               high = static_cast<std::uint64_t>(_mm_extract_epi64(made, 1));
    if (lanes >= 4) {
      const std::uint64_t last =
          high << (8 * (8 - lanes)) << (8 * (8 - lanes)) | low >> (8 * (lanes - 4)) >> (8 * (lanes - 4));
      std::memcpy(p, &low, sizeof(low));
      std::memcpy(p + lanes - 4, &last, sizeof(last));
    } else if (lanes >= 2) {
      std::memcpy(p, &low, sizeof(std::uint32_t));
      p[lanes - 1] = static_cast<std::uint16_t>(low >> (16 * (lanes - 1)));
    } else if (lanes == 1) {
      *p = static_cast<std::uint16_t>(low);
    }
  }
};

#endif

using F16s = Halves<F16Lanes>;
using Bf16s = Halves<Bf16Lanes>;

// f(Type()) with how elements of `type`, f32 or a half, are loaded and stored.
template <class F>
CONVOY_SIMD void with_elements(DataType type, F f) {
  if (type == DataType::f16) return f(F16s());
  if (type == DataType::bf16) return f(Bf16s());
  f(Floats());
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
