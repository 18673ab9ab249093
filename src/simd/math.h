// Vector exp, expm1, sigmoid, tanh and erf: within 3 ulp of the result, near zero too (tanh, erf: within 6), NaN
// kept, infinities right. exp is 0 where the result is below the least normal number: each instruction that meets a
// denormal one takes a hundred cycles on some processors, and a network's logits reach that far. The polynomials are
// near-minimax fits in f64 (Lawson's iteration) on the ranges named beside them; the argument reduction of exp is Cody
// and Waite's, Software Manual for the Elementary Functions, chapter 6.
//
// Of f64 they are the C library's, lane by lane: what f64 is chosen for is not speed.
#pragma once

#include "simd/simd.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

#if defined(CONVOY_F64)

template <class F>
CONVOY_SIMD Vf of_each_lane(Vf v, F f) {
  Real lanes[kLanes];
  store(lanes, v);
  for (Real& lane : lanes) lane = f(lane);
  return load(lanes);
}

CONVOY_SIMD Vf exp(Vf v) {
  return of_each_lane(v, [](Real x) { return __builtin_exp(x); });
}
CONVOY_SIMD Vf expm1_negative(Vf v) {
  return of_each_lane(v, [](Real x) { return __builtin_expm1(x); });
}
CONVOY_SIMD Vf tanh(Vf v) {
  return of_each_lane(v, [](Real x) { return __builtin_tanh(x); });
}
CONVOY_SIMD Vf erf(Vf v) {
  return of_each_lane(v, [](Real x) { return __builtin_erf(x); });
}
CONVOY_SIMD Vf one_and_exp_of_negative(Vf v) { return add(broadcast(1), exp(negate(v))); }

#else

// v = n*log(2) + r with integral n and |r| <= log(2)/2; returns expm1(r).
CONVOY_SIMD Vf reduced_expm1(Vf v, Vf& n) {
  n = round_nearest(mul(v, broadcast(1.442695041f)));
  // log(2) in two parts, the first with 9 trailing zero bits: n * first is exact.
  Vf r = fnma(n, broadcast(0.693359375f), v);
  r = fnma(n, broadcast(-2.12194440e-4f), r);
  Vf p = broadcast(1.3814540579915047e-03f);  // |r| <= 0.35, error 3e-9 of exp(r)
  p = fma(p, r, broadcast(8.36874544620514e-03f));
  p = fma(p, r, broadcast(4.166838899254799e-02f));
  p = fma(p, r, broadcast(1.666652113199234e-01f));
  p = fma(p, r, broadcast(4.999999403953552e-01f));
  return fma(mul(r, r), p, r);
}

// For v <= log(2^128), below which the result is finite.
CONVOY_SIMD Vf exp_of_small(Vf v) {
  const Vf least = broadcast(-87.336f);  // log(2^-126) is -87.3365
  Vf n;
  const Vf p = reduced_expm1(max(least, v), n);
  return blend(less(v, least), scale_by_power(add(p, broadcast(1.0f)), n), zero());
}

CONVOY_SIMD Vf exp(Vf v) {
  const Vf largest = broadcast(88.72283f);  // log(2^128) is 88.722839
  return blend(less(largest, v), exp_of_small(min(largest, v)), broadcast(__builtin_inff()));
}

// exp(v) - 1 for v <= 0, accurate near 0.
CONVOY_SIMD Vf expm1_negative(Vf v) {
  v = max(broadcast(-80.0f), v);
  Vf n;
  const Vf p = reduced_expm1(v, n);
  const Vf power = scale_by_power(broadcast(1.0f), n);
  return fma(power, p, sub(power, broadcast(1.0f)));
}

// 1 + exp(-v); infinity below -87.
CONVOY_SIMD Vf one_and_exp_of_negative(Vf v) {
  const Vf one = broadcast(1.0f), bound = broadcast(87.0f);
  Vf n;
  const Vf p = reduced_expm1(min(bound, max(negate(bound), negate(v))), n);
  const Vf sum = add(one, scale_by_power(add(p, one), n));
  return blend(less(v, negate(bound)), sum, broadcast(__builtin_inff()));
}

// v times a rational of v^2 on |v| <= 9.036, where it is 1 as computed: relative error 2.1e-8.
CONVOY_SIMD Vf tanh(Vf v) {
  const Vf one = broadcast(1.0f), end = broadcast(9.035895f);
  const Vf x = min(end, max(negate(end), v));
  const Vf s = mul(x, x);
  Vf p = broadcast(1.3354673811249995e-08f);
  p = fma(p, s, broadcast(2.060909719148185e-05f));
  p = fma(p, s, broadcast(3.495589131489396e-03f));
  p = fma(p, s, broadcast(1.3381026685237885e-01f));
  p = fma(p, s, one);
  Vf q = broadcast(7.776565098538413e-07f);
  q = fma(q, s, broadcast(3.2856364850886166e-04f));
  q = fma(q, s, broadcast(2.5876985862851143e-02f));
  q = fma(q, s, broadcast(4.671434164047241e-01f));
  q = fma(q, s, one);
  return min(one, max(negate(one), div(mul(x, p), q)));
}

// v times a rational of v^2 on |v| <= 3.95, where erf is 1 in f32: relative error 2.1e-8.
CONVOY_SIMD Vf erf(Vf v) {
  const Vf one = broadcast(1.0f), end = broadcast(3.95f);
  const Vf x = min(end, max(negate(end), v));
  const Vf s = mul(x, x);
  Vf p = broadcast(2.0259003576938994e-06f);
  p = fma(p, s, broadcast(2.846868010237813e-04f));
  p = fma(p, s, broadcast(3.808150999248028e-03f));
  p = fma(p, s, broadcast(5.287541076540947e-02f));
  p = fma(p, s, broadcast(1.915501803159714e-01f));
  p = fma(p, s, broadcast(1.1283791065216064f));
  Vf q = broadcast(3.783167267101817e-05f);
  q = fma(q, s, broadcast(1.1707218363881111e-03f));
  q = fma(q, s, broadcast(1.5055069699883461e-02f));
  q = fma(q, s, broadcast(1.1455955356359482e-01f));
  q = fma(q, s, broadcast(5.030896067619324e-01f));
  q = fma(q, s, one);
  return min(one, max(negate(one), div(mul(x, p), q)));
}

#endif

CONVOY_SIMD Vf sigmoid(Vf v) { return div(broadcast(1), one_and_exp_of_negative(v)); }

// v * sigmoid(a * v).
CONVOY_SIMD Vf swish(Vf v, Vf a) { return div(v, one_and_exp_of_negative(mul(v, a))); }

}  // namespace convoy::cpu::CONVOY_CPU_ISA
