// exp and sigmoid of vectors whose results are rounded to 16 bits: within 2^-18 of the result (a half's last place is
// 2^-11 or 2^-8 of it), NaN kept, infinities right. exp takes ten instructions where simd/math.h's takes fourteen:
// halves of these functions wait for them, not for memory.
#pragma once

#include "simd/simd.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

// exp(v) is 2^n times what is returned.
CONVOY_SIMD Vf half_power(Vf v, Vf& n) {
  const Vf log2_e = broadcast(1.442695041f);
  const Vf whole = broadcast(12582912.0f);  // 1.5 * 2^23: what is added to it becomes an integer
  n = sub(fma(v, log2_e, whole), whole);
  const Vf g = fnma(v, log2_e, n);    // exp(v) is 2^n * 2^-g
  Vf p = broadcast(9.57010191e-03f);  // 2^-g for |g| <= 0.5, Remez: error 2.6e-6
  p = fma(p, g, broadcast(-5.59178603e-02f));
  p = fma(p, g, broadcast(2.40247448e-01f));
  p = fma(p, g, broadcast(-6.93121815e-01f));
  return fma(p, g, broadcast(9.99999261e-01f));
}

// For |v| <= 87.3, where the result is a normal number.
CONVOY_SIMD Vf half_exp_within(Vf v) {
  Vf n;
  const Vf p = half_power(v, n);
  return scale_by_power(p, n);
}

// 0 where the result is below the normal numbers, infinity where it is above them.
CONVOY_SIMD Vf half_exp(Vf v) {
  const Vf least = broadcast(-87.3f);
#if defined(__AVX512F__)
  // The scaling is right for results of any size, so that arguments are bounded on one side.
  Vf n;
  const Vf p = half_power(min(broadcast(89.0f), v), n);
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(v, least, _CMP_NLT_UQ), p, n);  // NaN, too
#else
  const Vf root = half_exp_within(mul(broadcast(0.5f), max(least, min(broadcast(89.0f), v))));
  return blend(less(v, least), mul(root, root), zero());
#endif
}

// For v <= 0; 0 where the result is below the normal numbers.
CONVOY_SIMD Vf half_exp_of_negative(Vf v) {
  const Vf least = broadcast(-87.3f);
  return blend(less(v, least), half_exp_within(max(least, v)), zero());
}

// 1 + exp(-v); infinity below -87.
CONVOY_SIMD Vf half_one_and_exp_of_negative(Vf v) {
  const Vf bound = broadcast(87.0f), least = negate(bound);
  const Vf sum = add(broadcast(1.0f), half_exp_within(negate(min(bound, max(least, v)))));
  return blend(less(v, least), sum, broadcast(__builtin_inff()));
}

CONVOY_SIMD Vf half_sigmoid(Vf v) { return div(broadcast(1.0f), half_one_and_exp_of_negative(v)); }

// v * sigmoid(a * v).
CONVOY_SIMD Vf half_swish(Vf v, Vf a) { return div(v, half_one_and_exp_of_negative(mul(v, a))); }

}  // namespace convoy::cpu::CONVOY_CPU_ISA
