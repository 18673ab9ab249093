// Eight elements of a narrow type as f32 lanes and back, for units compiled with the AVX2 flags of convoy_library only.
// The same bits as core/float_formats.h gives one by one: rounded to nearest even, NaN quiet with its payload.
#pragma once

// GCC 12 reports the deliberately undefined operands inside its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#if !defined(__AVX2__) || !defined(__F16C__)
#error "include simd/avx2_elements.h only from units built with AVX2 flags"
#endif

#define CONVOY_AVX2 static inline __attribute__((always_inline))

namespace convoy::avx2 {

constexpr std::int64_t kLanes = 8;

// A 16-bit float: eight of them are an __m128i, sixteen an __m256i.
struct F16 {
  CONVOY_AVX2 __m256 widen(__m128i v) { return _mm256_cvtph_ps(v); }
  CONVOY_AVX2 void widen(__m256i v, __m256& low, __m256& high) {
    low = widen(_mm256_castsi256_si128(v));
    high = widen(_mm256_extracti128_si256(v, 1));
  }
  CONVOY_AVX2 __m128i narrow(__m256 v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
  CONVOY_AVX2 __m256i narrow(__m256 low, __m256 high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(narrow(low)), narrow(high), 1);
  }
  // Sixteen in two vectors in an order of their own, for what is done to each element alone.
  CONVOY_AVX2 void widen_unordered(__m256i v, __m256& a, __m256& b) { widen(v, a, b); }
  CONVOY_AVX2 __m256i narrow_unordered(__m256 a, __m256 b) { return narrow(a, b); }
  CONVOY_AVX2 __m256i narrow_exact(__m256 a, __m256 b) { return narrow(a, b); }
};

struct Bf16 {
  CONVOY_AVX2 __m256 widen(__m128i v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16)); }
  CONVOY_AVX2 __m128i narrow(__m256 v) {
    const __m256i upper = _mm256_srli_epi32(rounded<true>(v), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
  // Sixteen, which only move within their halves after one shuffle.
  CONVOY_AVX2 void widen(__m256i v, __m256& low, __m256& high) {
    v = _mm256_permute4x64_epi64(v, 0xd8);
    low = _mm256_castsi256_ps(_mm256_unpacklo_epi16(_mm256_setzero_si256(), v));
    high = _mm256_castsi256_ps(_mm256_unpackhi_epi16(_mm256_setzero_si256(), v));
  }
  // One comparison finds what almost never is there.
  CONVOY_AVX2 __m256i narrow(__m256 low, __m256 high) {
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(low, high, _CMP_UNORD_Q)) != 0, 0)) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(narrow(low)), narrow(high), 1);
    }
    return _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_srli_epi32(rounded<false>(low), 16), _mm256_srli_epi32(rounded<false>(high), 16)),
        0xd8);
  }
  // Sixteen as the even ones and the odd ones: a shift and a mask make them, and a shift and a blend put them back.
  CONVOY_AVX2 void widen_unordered(__m256i v, __m256& even, __m256& odd) {
    even = _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
    odd = _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  CONVOY_AVX2 __m256i narrow_unordered(__m256 even, __m256 odd) {
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(even, odd, _CMP_UNORD_Q)) != 0, 0)) {
      return upper_halves(rounded<true>(even), rounded<true>(odd));
    }
    return upper_halves(rounded<false>(even), rounded<false>(odd));
  }
  // Of what are bf16 values already, no NaN that must become quiet among them.
  CONVOY_AVX2 __m256i narrow_exact(__m256 even, __m256 odd) {
    return upper_halves(_mm256_castps_si256(even), _mm256_castps_si256(odd));
  }

 private:
  CONVOY_AVX2 __m256i upper_halves(__m256i even, __m256i odd) {
    return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
  }
  template <bool kNan>
  CONVOY_AVX2 __m256i rounded(__m256 v) {  // in the upper halves
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    if constexpr (kNan) {
      const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      nearest = _mm256_blendv_epi8(nearest, quiet, is_nan);
    }
    return nearest;
  }
};

// Eight bytes as s32.
CONVOY_AVX2 __m256i widen_bytes(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
CONVOY_AVX2 __m256i widen_bytes(const std::int8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace convoy::avx2
