// A thin vector layer for the per-ISA units: vectors of f32, or of f64 in units that define CONVOY_F64, of the width
// that the unit is compiled for.
//
// Include it only from units built with the AVX2 or AVX512 flags of convoy_library. Everything lives in
// convoy::cpu::avx512 or convoy::cpu::avx2, of f64 in avx512_f64 or avx2_f64 (CONVOY_CPU_ISA names which), and has
// internal linkage, so that units built with different flags never share a function. Partial loads and stores touch no
// byte beyond their lanes. min(bound, v) and max(bound, v) return v when v is NaN: write the bound first to keep NaN.
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
#if defined(CONVOY_F64)
#define CONVOY_CPU_ISA avx512_f64
#define CONVOY_MM(operation) _mm512_##operation##_pd
#else
#define CONVOY_CPU_ISA avx512
#define CONVOY_MM(operation) _mm512_##operation##_ps
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#if defined(CONVOY_F64)
#define CONVOY_CPU_ISA avx2_f64
#define CONVOY_MM(operation) _mm256_##operation##_pd
#else
#define CONVOY_CPU_ISA avx2
#define CONVOY_MM(operation) _mm256_##operation##_ps
#endif
#else
#error "include simd/simd.h only from units built with AVX2 or AVX512 flags"
#endif

#define CONVOY_SIMD static inline __attribute__((always_inline))

namespace convoy::cpu::CONVOY_CPU_ISA {

#if defined(CONVOY_F64)
using Real = double;
#else
using Real = float;
#endif

// Vf: lanes of Real. Vi: as many whole numbers of their size. Mask: the result of a comparison. Lanes: the first n
// lanes.
#if defined(__AVX512F__)

#if defined(CONVOY_F64)
using Vf = __m512d;
using Mask = __mmask8;
#else
using Vf = __m512;
using Mask = __mmask16;
#endif
using Vi = __m512i;
using Lanes = Mask;
constexpr int kRegisters = 32;

#else

#if defined(CONVOY_F64)
using Vf = __m256d;
#else
using Vf = __m256;
#endif
using Vi = __m256i;
using Mask = Vf;
using Lanes = __m256i;
constexpr int kRegisters = 16;

#endif

constexpr int kLanes = static_cast<int>(sizeof(Vf) / sizeof(Real));

CONVOY_SIMD Vf zero() { return CONVOY_MM(setzero)(); }
CONVOY_SIMD Vf broadcast(Real v) { return CONVOY_MM(set1)(v); }
CONVOY_SIMD Vf load(const Real* p) { return CONVOY_MM(loadu)(p); }
CONVOY_SIMD void store(Real* p, Vf v) { CONVOY_MM(storeu)(p, v); }
CONVOY_SIMD Vf add(Vf a, Vf b) { return CONVOY_MM(add)(a, b); }
CONVOY_SIMD Vf sub(Vf a, Vf b) { return CONVOY_MM(sub)(a, b); }
CONVOY_SIMD Vf mul(Vf a, Vf b) { return CONVOY_MM(mul)(a, b); }
CONVOY_SIMD Vf div(Vf a, Vf b) { return CONVOY_MM(div)(a, b); }
CONVOY_SIMD Vf fma(Vf a, Vf b, Vf c) { return CONVOY_MM(fmadd)(a, b, c); }    // a*b + c
CONVOY_SIMD Vf fnma(Vf a, Vf b, Vf c) { return CONVOY_MM(fnmadd)(a, b, c); }  // c - a*b
CONVOY_SIMD Vf min(Vf bound, Vf v) { return CONVOY_MM(min)(bound, v); }
CONVOY_SIMD Vf max(Vf bound, Vf v) { return CONVOY_MM(max)(bound, v); }

#if defined(__AVX512F__)

CONVOY_SIMD Lanes first_lanes(int n) { return static_cast<Lanes>((1u << n) - 1); }            // 0 <= n <= kLanes
CONVOY_SIMD Vf load(const Real* p, Lanes lanes) { return CONVOY_MM(maskz_loadu)(lanes, p); }  // other lanes are 0
CONVOY_SIMD void store(Real* p, Vf v, Lanes lanes) { CONVOY_MM(mask_storeu)(p, lanes, v); }
#if defined(CONVOY_F64)
CONVOY_SIMD Mask less(Vf a, Vf b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
CONVOY_SIMD Mask greater_equal(Vf a, Vf b) { return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ); }
#else
CONVOY_SIMD Mask less(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
CONVOY_SIMD Mask greater_equal(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
#endif
CONVOY_SIMD Vf blend(Mask m, Vf if_false, Vf if_true) { return CONVOY_MM(mask_blend)(m, if_false, if_true); }

#else

CONVOY_SIMD Lanes first_lanes(int n) {
#if defined(CONVOY_F64)
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
#else
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#endif
}
CONVOY_SIMD Vf load(const Real* p, Lanes lanes) { return CONVOY_MM(maskload)(p, lanes); }
// On Zen 3 a masked store, also one of all lanes, was a quarter of an epilogue's time (perf).
CONVOY_SIMD void store(Real* p, Vf v, Lanes lanes) {
  if (_mm256_movemask_epi8(lanes) == -1) {
    CONVOY_MM(storeu)(p, v);
  } else {
    CONVOY_MM(maskstore)(p, lanes, v);
  }
}
CONVOY_SIMD Mask less(Vf a, Vf b) { return CONVOY_MM(cmp)(a, b, _CMP_LT_OQ); }
CONVOY_SIMD Mask greater_equal(Vf a, Vf b) { return CONVOY_MM(cmp)(a, b, _CMP_GE_OQ); }
CONVOY_SIMD Vf blend(Mask m, Vf if_false, Vf if_true) { return CONVOY_MM(blendv)(if_false, if_true, m); }

#endif

CONVOY_SIMD Lanes all_lanes() { return first_lanes(kLanes); }
CONVOY_SIMD Vf negate(Vf v) { return sub(zero(), v); }

#if defined(__AVX512F__) && defined(CONVOY_F64)

CONVOY_SIMD Vi load_index(const std::int32_t* p) {
  return _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm512_permutexvar_pd(index, v); }  // lane l is v[index[l]]
CONVOY_SIMD Vf load(const float* p, Lanes lanes) { return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, p)); }

#elif defined(__AVX512F__)

CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm512_loadu_si512(p); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm512_permutexvar_ps(index, v); }

#elif defined(CONVOY_F64)

// Of each lane its two halves.
CONVOY_SIMD Vi load_index(const std::int32_t* p) {
  const Vi low = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 1);
  return _mm256_or_si256(low, _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32));
}
CONVOY_SIMD Vf permute(Vf v, Vi index) {
  return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), index));
}
CONVOY_SIMD Vf load(const float* p, Lanes lanes) {
  const Vi of_f32 = _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm256_castsi256_si128(of_f32)));
}

#else

CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm256_permutevar8x32_ps(v, index); }

#endif

#if !defined(CONVOY_F64)  // what simd/math.h and products take

#if defined(__AVX512F__)

CONVOY_SIMD Vf abs(Vf v) { return _mm512_abs_ps(v); }
CONVOY_SIMD Vf copy_sign(Vf magnitude, Vf sign) {
  return _mm512_or_ps(_mm512_andnot_ps(_mm512_set1_ps(-0.0f), magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
CONVOY_SIMD Vf round_nearest(Vf v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
CONVOY_SIMD float reduce_add(Vf v) { return _mm512_reduce_add_ps(v); }
// v * 2^n for integral n, right for subnormal and infinite results.
CONVOY_SIMD Vf scale_by_power(Vf v, Vf n) { return _mm512_scalef_ps(v, n); }

#else

CONVOY_SIMD Vf abs(Vf v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
CONVOY_SIMD Vf copy_sign(Vf magnitude, Vf sign) {
  return _mm256_or_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
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
#endif

}  // namespace convoy::cpu::CONVOY_CPU_ISA
