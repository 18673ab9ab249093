// Vector sqrt, floor, ceil, exp, tanh, expm1, log, log1p, sin, cos, tan and their inverses, sinh, cosh and theirs:
// within 4 ulp of the result (tan: 8; sines far from 0 within 1e-7), NaN kept, infinities as the C library has them.
// Polynomials and reductions are those of the single precision functions of the Cephes library (S. L. Moshier); log1p
// is Kahan's.
#pragma once

#include "simd/math.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

#if defined(__AVX512F__)

CONVOY_SIMD bool any(Mask m) { return m != 0; }
CONVOY_SIMD Vf sqrt(Vf v) { return _mm512_sqrt_ps(v); }
CONVOY_SIMD Vf floor(Vf v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Vf ceil(Vf v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Vf truncate(Vf v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Mask equal(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
CONVOY_SIMD Vf flip_sign(Vf v, Vf sign) {
  return _mm512_castsi512_ps(_mm512_xor_si512(
      _mm512_castps_si512(v), _mm512_and_si512(_mm512_castps_si512(sign), _mm512_set1_epi32(INT32_MIN))));
}
// Positive and finite v = m * 2^e with 1 <= m < 2.
CONVOY_SIMD Vf mantissa(Vf v, Vf& e) {
  e = _mm512_getexp_ps(v);
  return _mm512_getmant_ps(v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}

#else

CONVOY_SIMD bool any(Mask m) { return _mm256_movemask_ps(m) != 0; }
CONVOY_SIMD Vf sqrt(Vf v) { return _mm256_sqrt_ps(v); }
CONVOY_SIMD Vf floor(Vf v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Vf ceil(Vf v) { return _mm256_round_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Vf truncate(Vf v) { return _mm256_round_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
CONVOY_SIMD Mask equal(Vf a, Vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
CONVOY_SIMD Vf flip_sign(Vf v, Vf sign) { return _mm256_xor_ps(v, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign)); }
CONVOY_SIMD Vf mantissa(Vf v, Vf& e) {
  const Mask tiny = less(v, broadcast(1.1754944e-38f));
  v = blend(tiny, v, mul(v, broadcast(8388608.0f)));
  const __m256i bits = _mm256_castps_si256(v);
  e = sub(_mm256_cvtepi32_ps(_mm256_srli_epi32(bits, 23)), blend(tiny, broadcast(127.0f), broadcast(150.0f)));
  const __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff));
  return _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3f800000)));
}

#endif

#if defined(__AVX512F__)
// exp as simd/math.h has it. The scaling is right for results of any size, so that arguments are bounded on one side.
CONVOY_SIMD Vf quick_exp(Vf v) {
  Vf n;
  const Vf p = reduced_expm1(min(broadcast(89.0f), v), n);
  const Mask normal = _mm512_cmp_ps_mask(v, broadcast(-87.336f), _CMP_NLT_UQ);  // NaN, too
  return _mm512_maskz_scalef_ps(normal, add(p, broadcast(1.0f)), n);
}
CONVOY_SIMD Vf quick_exp_of_negative(Vf v) { return quick_exp(v); }
#else
CONVOY_SIMD Vf quick_exp(Vf v) { return exp(v); }
CONVOY_SIMD Vf quick_exp_of_negative(Vf v) { return exp_of_small(v); }
#endif

CONVOY_SIMD Vf nan() { return broadcast(__builtin_nanf("")); }
CONVOY_SIMD Vf infinity() { return broadcast(__builtin_inff()); }

CONVOY_SIMD Vf expm1(Vf v) {
  Vf n;
  const Vf p = reduced_expm1(max(broadcast(-80.0f), min(broadcast(89.0f), v)), n);
  const Vf half = broadcast(0.5f), power = scale_by_power(half, n);  // half of it is finite where all of it is not
  const Vf y = fma(power, p, sub(power, half));
  return add(y, y);
}

CONVOY_SIMD Vf log(Vf v) {
  const Vf one = broadcast(1.0f);
  Vf e;
  Vf m = mantissa(v, e);
  const Mask upper = less(broadcast(1.41421356f), m);
  m = blend(upper, m, mul(m, broadcast(0.5f)));
  e = blend(upper, e, add(e, one));
  const Vf x = sub(m, one), z = mul(x, x);
  Vf p = broadcast(7.0376836292e-2f);
  p = fma(p, x, broadcast(-1.1514610310e-1f));
  p = fma(p, x, broadcast(1.1676998740e-1f));
  p = fma(p, x, broadcast(-1.2420140846e-1f));
  p = fma(p, x, broadcast(1.4249322787e-1f));
  p = fma(p, x, broadcast(-1.6668057665e-1f));
  p = fma(p, x, broadcast(2.0000714765e-1f));
  p = fma(p, x, broadcast(-2.4999993993e-1f));
  p = fma(p, x, broadcast(3.3333331174e-1f));
  // log(2) in two parts, the first with 9 trailing zero bits: e * first is exact.
  Vf y = fma(e, broadcast(-2.12194440e-4f), mul(mul(x, z), p));
  y = fma(z, broadcast(-0.5f), y);
  y = fma(e, broadcast(0.693359375f), add(x, y));
  y = blend(less(v, infinity()), v, y);  // infinity and NaN are their own
  y = blend(equal(v, zero()), y, negate(infinity()));
  return blend(less(v, zero()), y, nan());
}

CONVOY_SIMD Vf log1p(Vf v) {
  const Vf one = broadcast(1.0f);
  const Vf u = add(one, v), rounded = sub(u, one);
  const Vf y = mul(log(u), div(v, rounded));
  const Vf same = blend(equal(rounded, zero()), y, v);
  return blend(equal(v, infinity()), same, v);
}

CONVOY_SIMD Vf sin_near(Vf r, Vf z) {  // |r| <= pi / 4, z = r * r
  Vf p = broadcast(-1.9515295891e-4f);
  p = fma(p, z, broadcast(8.3321608736e-3f));
  p = fma(p, z, broadcast(-1.6666654611e-1f));
  return fma(mul(z, r), p, r);
}
CONVOY_SIMD Vf cos_near(Vf z) {
  Vf p = broadcast(2.443315711809948e-5f);
  p = fma(p, z, broadcast(-1.388731625493765e-3f));
  p = fma(p, z, broadcast(4.166664568298827e-2f));
  return fma(mul(z, z), p, fma(z, broadcast(-0.5f), broadcast(1.0f)));
}

// v = n * pi / 2 + r, |v| <= kMostTurned.
constexpr float kMostTurned = 1e5f;
CONVOY_SIMD Vf quarter_turns(Vf v, Vf& r) {
  const Vf n = round_nearest(mul(v, broadcast(0.636619772f)));
  r = fnma(n, broadcast(1.57079637050628662f), v);
  r = fnma(n, broadcast(-4.37113882867379e-8f), r);
  r = fnma(n, broadcast(-1.71512454e-15f), r);
  return n;
}
// Of whole numbers: whether they are odd, as 0 and 1, and the half rounded down.
CONVOY_SIMD Vf odd(Vf n, Vf& half) {
  half = floor(mul(n, broadcast(0.5f)));
  return fnma(half, broadcast(2.0f), n);
}

// The sine `turns` quarters of a turn ahead.
CONVOY_SIMD Vf sin_ahead(Vf v, Vf turns) {
  Vf r, half, unused;
  const Vf n = add(quarter_turns(v, r), turns);
  const Vf z = mul(r, r);
  const Mask crossed = less(zero(), odd(n, half));
  const Vf y = blend(crossed, sin_near(r, z), cos_near(z));
  return blend(less(zero(), odd(half, unused)), y, negate(y));
}
CONVOY_SIMD Vf tan_of_near(Vf v) {
  Vf r, half;
  const Vf n = quarter_turns(v, r);
  const Vf z = mul(r, r), s = sin_near(r, z), c = cos_near(z);
  const Mask crossed = less(zero(), odd(n, half));
  return div(blend(crossed, s, negate(c)), blend(crossed, c, s));
}

// f, or where an argument is too large the C library's.
template <class F, class Library>
CONVOY_SIMD Vf turned(Vf v, F f, Library library) {
  if (__builtin_expect(any(less(broadcast(kMostTurned), abs(v))), 0)) {
    float lanes[kLanes];
    store(lanes, v);
    for (float& lane : lanes) lane = library(lane);
    return load(lanes);
  }
  return f(v);
}
CONVOY_SIMD Vf sin(Vf v) {
  return turned(
      v, [](Vf x) { return sin_ahead(x, zero()); }, [](float x) { return __builtin_sinf(x); });
}
CONVOY_SIMD Vf cos(Vf v) {
  return turned(
      v, [](Vf x) { return sin_ahead(x, broadcast(1.0f)); }, [](float x) { return __builtin_cosf(x); });
}
CONVOY_SIMD Vf tan(Vf v) {
  return turned(
      v, [](Vf x) { return tan_of_near(x); }, [](float x) { return __builtin_tanf(x); });
}

CONVOY_SIMD Vf atan(Vf v) {
  const Vf a = abs(v), one = broadcast(1.0f);
  const Mask far = less(broadcast(2.414213562f), a), middle = less(broadcast(0.4142135624f), a);
  const Vf above = blend(far, sub(a, one), broadcast(-1.0f)), below = blend(far, add(a, one), a);
  const Vf x = blend(middle, a, div(above, below));
  const Vf start = blend(middle, zero(), blend(far, broadcast(0.785398163f), broadcast(1.570796327f)));
  const Vf z = mul(x, x);
  Vf p = broadcast(8.05374449538e-2f);
  p = fma(p, z, broadcast(-1.38776856032e-1f));
  p = fma(p, z, broadcast(1.99777106478e-1f));
  p = fma(p, z, broadcast(-3.33329491539e-1f));
  return copy_sign(add(start, fma(mul(z, x), p, x)), v);
}

CONVOY_SIMD Vf asin_near(Vf x) {  // |x| <= 0.5
  const Vf z = mul(x, x);
  Vf p = broadcast(4.2163199048e-2f);
  p = fma(p, z, broadcast(2.4181311049e-2f));
  p = fma(p, z, broadcast(4.5470025998e-2f));
  p = fma(p, z, broadcast(7.4953002686e-2f));
  p = fma(p, z, broadcast(1.6666752422e-1f));
  return fma(mul(z, x), p, x);
}
// asin of what is left of |v| from 1 on is a square root away.
CONVOY_SIMD Vf asin(Vf v) {
  const Vf a = abs(v), half = broadcast(0.5f);
  const Mask far = less(half, a);
  const Vf p = asin_near(blend(far, a, sqrt(mul(half, sub(broadcast(1.0f), a)))));
  const Vf y = blend(far, p, fnma(broadcast(2.0f), p, broadcast(1.570796327f)));
  return copy_sign(y, v);
}
CONVOY_SIMD Vf acos(Vf v) {
  const Vf a = abs(v), half = broadcast(0.5f), two = broadcast(2.0f);
  const Mask far = less(half, a);
  const Vf p = asin_near(blend(far, v, sqrt(mul(half, sub(broadcast(1.0f), a)))));
  const Vf twice = mul(two, p);
  const Vf beyond = blend(less(v, zero()), twice, sub(broadcast(3.141592654f), twice));
  return blend(far, sub(broadcast(1.570796327f), p), beyond);
}

// exp(a) / 2 in two factors: it may be finite where exp(a) is not.
CONVOY_SIMD Vf half_exp_of(Vf a, Vf& root) {
  root = exp(mul(broadcast(0.5f), a));
  return mul(mul(broadcast(0.5f), root), root);
}
CONVOY_SIMD Vf cosh(Vf v) {
  Vf root;
  const Vf e = half_exp_of(abs(v), root);
  return add(e, div(broadcast(0.25f), e));
}
CONVOY_SIMD Vf sinh(Vf v) {
  const Vf a = abs(v), z = mul(v, v);
  Vf p = broadcast(2.03721912945e-4f);
  p = fma(p, z, broadcast(8.33028376239e-3f));
  p = fma(p, z, broadcast(1.66667160211e-1f));
  const Vf near = fma(mul(z, v), p, v);
  Vf root;
  const Vf e = half_exp_of(a, root);
  return blend(less(broadcast(1.0f), a), near, copy_sign(sub(e, div(broadcast(0.25f), e)), v));
}

constexpr float kLogOfTwo = 0.693147181f;
CONVOY_SIMD Vf asinh(Vf v) {
  const Vf a = abs(v), one = broadcast(1.0f), z = mul(a, a);
  const Vf near = log1p(add(a, div(z, add(one, sqrt(add(z, one))))));
  const Vf far = add(log(a), broadcast(kLogOfTwo));
  return copy_sign(blend(less(broadcast(1e9f), a), near, far), v);
}
CONVOY_SIMD Vf acosh(Vf v) {
  const Vf t = sub(v, broadcast(1.0f));
  const Vf near = log1p(add(t, sqrt(fma(t, t, add(t, t)))));
  const Vf far = add(log(v), broadcast(kLogOfTwo));
  return blend(less(v, broadcast(1.0f)), blend(less(broadcast(1e9f), v), near, far), nan());
}
CONVOY_SIMD Vf atanh(Vf v) {
  const Vf a = abs(v), one = broadcast(1.0f);
  return copy_sign(mul(broadcast(0.5f), log1p(div(add(a, a), sub(one, a)))), v);
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
