// A thin vector layer for the per-ISA units: f32 vectors of the width that the unit is compiled for.
//
// Include it only from units built with the AVX2 or AVX512 flags of convoy_library. Everything lives in
// convoy::cpu::avx512 or convoy::cpu::avx2 (CONVOY_CPU_ISA names which) and has internal linkage, so that units built
// with different flags never share a function. Partial loads and stores touch no byte beyond their lanes. min(bound, v)
// and max(bound, v) return v when v is NaN: write the bound first to keep NaN.
#pragma once

// GCC 12 reports the deliberately undefined operands inside its own AVX-512 intrinsics (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define CONVOY_CPU_ISA avx512
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define CONVOY_CPU_ISA avx2
#else
#error "include simd/simd.h only from units built with AVX2 or AVX512 flags"
#endif

#define CONVOY_SIMD static inline __attribute__((always_inline))

namespace convoy::cpu::CONVOY_CPU_ISA {

#if defined(__AVX512F__)

using Vf = __m512;        // f32 lanes
using Vi = __m512i;       // s32 lanes
using Mask = __mmask16;   // result of a comparison
using Lanes = __mmask16;  // the first n lanes
constexpr int kLanes = 16;
constexpr int kRegisters = 32;

CONVOY_SIMD Lanes first_lanes(int n) { return static_cast<Lanes>((1u << n) - 1); }  // 0 <= n <= kLanes
CONVOY_SIMD Vf zero() { return _mm512_setzero_ps(); }
CONVOY_SIMD Vf broadcast(float v) { return _mm512_set1_ps(v); }
CONVOY_SIMD Vf load(const float* p) { return _mm512_loadu_ps(p); }
CONVOY_SIMD Vf load(const float* p, Lanes lanes) { return _mm512_maskz_loadu_ps(lanes, p); }  // other lanes are 0
CONVOY_SIMD void store(float* p, Vf v) { _mm512_storeu_ps(p, v); }
CONVOY_SIMD void store(float* p, Vf v, Lanes lanes) { _mm512_mask_storeu_ps(p, lanes, v); }
CONVOY_SIMD Vf add(Vf a, Vf b) { return _mm512_add_ps(a, b); }
CONVOY_SIMD Vf sub(Vf a, Vf b) { return _mm512_sub_ps(a, b); }
CONVOY_SIMD Vf mul(Vf a, Vf b) { return _mm512_mul_ps(a, b); }
CONVOY_SIMD Vf div(Vf a, Vf b) { return _mm512_div_ps(a, b); }
CONVOY_SIMD Vf fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }    // a*b + c
CONVOY_SIMD Vf fnma(Vf a, Vf b, Vf c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a*b
CONVOY_SIMD Vf min(Vf bound, Vf v) { return _mm512_min_ps(bound, v); }
CONVOY_SIMD Vf max(Vf bound, Vf v) { return _mm512_max_ps(bound, v); }
CONVOY_SIMD Vf abs(Vf v) { return _mm512_abs_ps(v); }
CONVOY_SIMD Vf copy_sign(Vf magnitude, Vf sign) {
  return _mm512_or_ps(_mm512_andnot_ps(_mm512_set1_ps(-0.0f), magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
CONVOY_SIMD Mask less(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
CONVOY_SIMD Mask greater_equal(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
CONVOY_SIMD Vf blend(Mask m, Vf if_false, Vf if_true) { return _mm512_mask_blend_ps(m, if_false, if_true); }
CONVOY_SIMD Vf round_nearest(Vf v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
CONVOY_SIMD float reduce_add(Vf v) { return _mm512_reduce_add_ps(v); }
// v * 2^n for integral n, right for subnormal and infinite results.
CONVOY_SIMD Vf scale_by_power(Vf v, Vf n) { return _mm512_scalef_ps(v, n); }

#else

using Vf = __m256;
using Vi = __m256i;
using Mask = __m256;
using Lanes = __m256i;
constexpr int kLanes = 8;
constexpr int kRegisters = 16;

CONVOY_SIMD Lanes first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
CONVOY_SIMD Vf zero() { return _mm256_setzero_ps(); }
CONVOY_SIMD Vf broadcast(float v) { return _mm256_set1_ps(v); }
CONVOY_SIMD Vf load(const float* p) { return _mm256_loadu_ps(p); }
CONVOY_SIMD Vf load(const float* p, Lanes lanes) { return _mm256_maskload_ps(p, lanes); }
CONVOY_SIMD void store(float* p, Vf v) { _mm256_storeu_ps(p, v); }
// On Zen 3 a masked store, also one of all lanes, was a quarter of an epilogue's time (perf).
CONVOY_SIMD void store(float* p, Vf v, Lanes lanes) {
  if (_mm256_movemask_ps(_mm256_castsi256_ps(lanes)) == 0xff) {
    _mm256_storeu_ps(p, v);
  } else {
    _mm256_maskstore_ps(p, lanes, v);
  }
}
CONVOY_SIMD Vf add(Vf a, Vf b) { return _mm256_add_ps(a, b); }
CONVOY_SIMD Vf sub(Vf a, Vf b) { return _mm256_sub_ps(a, b); }
CONVOY_SIMD Vf mul(Vf a, Vf b) { return _mm256_mul_ps(a, b); }
CONVOY_SIMD Vf div(Vf a, Vf b) { return _mm256_div_ps(a, b); }
CONVOY_SIMD Vf fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }
CONVOY_SIMD Vf fnma(Vf a, Vf b, Vf c) { return _mm256_fnmadd_ps(a, b, c); }
CONVOY_SIMD Vf min(Vf bound, Vf v) { return _mm256_min_ps(bound, v); }
CONVOY_SIMD Vf max(Vf bound, Vf v) { return _mm256_max_ps(bound, v); }
CONVOY_SIMD Vf abs(Vf v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
CONVOY_SIMD Vf copy_sign(Vf magnitude, Vf sign) {
  return _mm256_or_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
CONVOY_SIMD Mask less(Vf a, Vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
CONVOY_SIMD Mask greater_equal(Vf a, Vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
CONVOY_SIMD Vf blend(Mask m, Vf if_false, Vf if_true) { return _mm256_blendv_ps(if_false, if_true, m); }
CONVOY_SIMD Vf round_nearest(Vf v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
CONVOY_SIMD float reduce_add(Vf v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
// v * 2^n with integral n, both v and the result normal numbers.
CONVOY_SIMD Vf scale_by_power(Vf v, Vf n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), exponent));
}

#endif

CONVOY_SIMD Lanes all_lanes() { return first_lanes(kLanes); }
CONVOY_SIMD Vf negate(Vf v) { return sub(zero(), v); }

}  // namespace convoy::cpu::CONVOY_CPU_ISA
