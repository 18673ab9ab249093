// The epilogue on vectors of accumulators. Include it only from per-ISA units (see simd.h).
//
// `finish_*` computes  out = act(alpha*acc + beta*out + bias + gamma*z)  for `lanes` lanes of one vector, stores them,
// and reads out only where beta != 0 and z only where gamma != 0. Every variant does the same arithmetic in the same
// order, so a value does not depend on which of them stored it.
#pragma once

#include "engines/cpu/common/epilogue_args.h"
#include "simd/math.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

// act(v); `slope` is read by prelu only.
CONVOY_SIMD Vf activate(Vf v, const EpilogueArgs& e, Vf slope) {
  const Vf one = broadcast(1.0f);
  const Vf half = broadcast(0.5f);
  switch (e.activation) {
    case kRelu:
      return max(zero(), v);
    case kClip:
      return min(broadcast(e.b), max(broadcast(e.a), v));
    case kLeakyRelu:
      return blend(less(v, zero()), v, mul(v, broadcast(e.a)));
    case kPrelu:
      return blend(less(v, zero()), v, mul(v, slope));
    case kElu:
      return blend(less(v, zero()), v, mul(broadcast(e.a), expm1_negative(v)));
    case kSigmoid:
      return sigmoid(v);
    case kTanh:
      return tanh(v);
    case kSwish:
      return mul(v, sigmoid(mul(v, broadcast(e.a))));
    case kHardSwish:
      return mul(v, min(one, max(zero(), fma(v, broadcast(1.0f / 6.0f), half))));
    case kHardSigmoid:
      return min(one, max(zero(), fma(v, broadcast(e.a), broadcast(e.b))));
    case kGelu:
      return mul(mul(half, v), add(one, erf(mul(v, broadcast(0.70710678f)))));
    case kGeluTanh: {
      // sqrt(2/pi) * (v + 0.044715 v^3)
      const Vf inner = mul(mul(v, broadcast(0.79788456f)), fma(mul(v, v), broadcast(0.044715f), one));
      return mul(mul(half, v), add(one, tanh(inner)));
    }
    case kMish: {
      // tanh(log(1+e)) = e(e+2) / (e(e+2)+2); from 40 on it is 1 in f32.
      const Vf e1 = exp(min(broadcast(40.0f), v));
      const Vf n = mul(e1, add(e1, broadcast(2.0f)));
      return mul(v, div(n, add(n, broadcast(2.0f))));
    }
    default:
      return v;
  }
}

// Lanes are consecutive channels; `channel` is the first. `z` may be null where gamma is 0.
CONVOY_SIMD void finish_channels_general(Vf acc, const EpilogueArgs& e, std::int64_t channel, float* out,
                                         const float* z, Lanes lanes) {
  const Vf bias = e.bias ? load(e.bias + channel, lanes) : zero();
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.beta != 0) v = fma(load(out, lanes), broadcast(e.beta), v);
  if (e.gamma != 0) v = fma(load(z, lanes), broadcast(e.gamma), v);
  const Vf slope = e.activation == kPrelu ? load(e.slopes + channel, lanes) : zero();
  store(out, activate(v, e, slope), lanes);
}

// Lanes are positions of one channel.
CONVOY_SIMD void finish_positions_general(Vf acc, const EpilogueArgs& e, std::int64_t channel, float* out,
                                          const float* z, Lanes lanes) {
  const Vf bias = e.bias ? broadcast(e.bias[channel]) : zero();
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.beta != 0) v = fma(load(out, lanes), broadcast(e.beta), v);
  if (e.gamma != 0) v = fma(load(z, lanes), broadcast(e.gamma), v);
  const Vf slope = e.activation == kPrelu ? broadcast(e.slopes[channel]) : zero();
  store(out, activate(v, e, slope), lanes);
}

// For full vectors when e.fast: `bias` is the vector of this store's bias (zero() without one).
CONVOY_SIMD void finish_fast(Vf acc, const EpilogueArgs& e, Vf bias, float* out, const float* z) {
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.gamma != 0) v = fma(load(z), broadcast(e.gamma), v);
  store(out, min(broadcast(e.high), max(broadcast(e.low), v)));
}

// The form most callers want: n lanes (1..kLanes), the fast path where it applies.
CONVOY_SIMD void finish_channels(Vf acc, const EpilogueArgs& e, std::int64_t channel, float* out, const float* z,
                                 int n) {
  if (e.fast && n == kLanes) {
    finish_fast(acc, e, e.bias ? load(e.bias + channel) : zero(), out, z);
  } else {
    finish_channels_general(acc, e, channel, out, z, first_lanes(n));
  }
}
CONVOY_SIMD void finish_positions(Vf acc, const EpilogueArgs& e, std::int64_t channel, float* out, const float* z,
                                  int n) {
  if (e.fast && n == kLanes) {
    finish_fast(acc, e, e.bias ? broadcast(e.bias[channel]) : zero(), out, z);
  } else {
    finish_positions_general(acc, e, channel, out, z, first_lanes(n));
  }
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
