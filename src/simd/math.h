// Vector exp, expm1, sigmoid, tanh and erf: within 3 ulp of the result (erf and tanh included, near zero too), NaN
// kept, infinities right. exp is 0 where the result is below the least normal number: each instruction that meets a
// denormal one takes a hundred cycles on some processors, and a network's logits reach that far. The polynomials are
// near-minimax fits in f64 (Lawson's iteration) on the ranges named beside them; the argument reduction of exp is Cody
// and Waite's, Software Manual for the Elementary Functions, chapter 6.
#pragma once

#include "simd/simd.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

// v = n*log(2) + r with integral n and |r| <= log(2)/2; returns expm1(r).
CONVOY_SIMD Vf reduced_expm1(Vf v, Vf& n) {
  n = round_nearest(mul(v, broadcast(1.442695041f)));
  // log(2) in two parts, the first with 9 trailing zero bits: n * first is exact.
  Vf r = fnma(n, broadcast(0.693359375f), v);
  r = fnma(n, broadcast(-2.12194440e-4f), r);
  Vf p = broadcast(1.991992176e-04f);  // |r| <= 0.35, relative error 5e-11
  p = fma(p, r, broadcast(1.394721213e-03f));
  p = fma(p, r, broadcast(8.333261581e-03f));
  p = fma(p, r, broadcast(4.166625400e-02f));
  p = fma(p, r, broadcast(1.666666687e-01f));
  p = fma(p, r, broadcast(5.000000083e-01f));
  return fma(mul(r, r), p, r);
}

CONVOY_SIMD Vf exp(Vf v) {
  const Vf least = broadcast(-87.336f);                    // log(2^-126) is -87.3365
  const Vf within = min(broadcast(89.0f), max(least, v));  // infinity above
  Vf n;
  const Vf p = reduced_expm1(within, n);
  return blend(less(v, least), scale_by_power(add(p, broadcast(1.0f)), n), zero());
}

// exp(v) - 1 for v <= 0, accurate near 0.
CONVOY_SIMD Vf expm1_negative(Vf v) {
  v = max(broadcast(-80.0f), v);
  Vf n;
  const Vf p = reduced_expm1(v, n);
  const Vf power = scale_by_power(broadcast(1.0f), n);
  return fma(power, p, sub(power, broadcast(1.0f)));
}

CONVOY_SIMD Vf sigmoid(Vf v) {
  const Vf one = broadcast(1.0f);
  // From exp(-|v|), so that small results keep their precision: e/(1+e) below 0, 1/(1+e) above.
  const Vf e = exp(negate(abs(v)));
  return div(blend(less(v, zero()), one, e), add(one, e));
}

CONVOY_SIMD Vf tanh(Vf v) {
  const Vf s = mul(v, v);
  Vf p = broadcast(2.064664287e-03f);  // |v| <= 0.65, relative error 3e-10
  p = fma(p, s, broadcast(-8.091967367e-03f));
  p = fma(p, s, broadcast(2.166634653e-02f));
  p = fma(p, s, broadcast(-5.394056311e-02f));
  p = fma(p, s, broadcast(1.333315790e-01f));
  p = fma(p, s, broadcast(-3.333332961e-01f));
  const Vf near = fma(mul(v, s), p, v);
  const Vf a = abs(v);
  const Vf one = broadcast(1.0f);
  const Vf e = exp(add(a, a));
  const Vf far = copy_sign(sub(one, div(broadcast(2.0f), add(e, one))), v);
  return blend(less(a, broadcast(0.65f)), far, near);
}

CONVOY_SIMD Vf erf(Vf v) {
  const Vf s = mul(v, v);
  Vf p = broadcast(7.889122973e-05f);  // erf(v)/v - 1 on |v| <= 1, absolute error 1.2e-9
  p = fma(p, s, broadcast(-8.020842440e-04f));
  p = fma(p, s, broadcast(5.189535487e-03f));
  p = fma(p, s, broadcast(-2.685444468e-02f));
  p = fma(p, s, broadcast(1.128360018e-01f));
  p = fma(p, s, broadcast(-3.761262714e-01f));
  p = fma(p, s, broadcast(1.283791659e-01f));
  const Vf near = fma(v, p, v);
  // -log(erfc(a)) on [1, 4], error 1e-9 relative to erf; beyond 4 erf is 1 in f32.
  const Vf a = abs(v);
  const Vf t = min(broadcast(4.0f), a);
  Vf q = broadcast(-1.855742197e-04f);
  q = fma(q, t, broadcast(2.939609406e-03f));
  q = fma(q, t, broadcast(-2.180532692e-02f));
  q = fma(q, t, broadcast(1.030373871e-01f));
  q = fma(q, t, broadcast(6.382256556e-01f));
  q = fma(q, t, broadcast(1.127040049e+00f));
  q = fma(q, t, broadcast(3.537161214e-04f));
  const Vf far = copy_sign(sub(broadcast(1.0f), exp(negate(q))), v);
  return blend(less(a, broadcast(1.0f)), far, near);
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
