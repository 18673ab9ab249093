// The epilogue on vectors of accumulators. Include it only from per-ISA units (see simd.h).
//
// `finish_*` computes  out = act(alpha*acc + beta*out + bias + gamma*z)  for `lanes` lanes of one vector, stores them,
// and reads out only where beta != 0 and z only where gamma != 0. Every variant does the same arithmetic in the same
// order, so a value does not depend on which of them stored it.
#pragma once

#include "engines/cpu/common/epilogue_args.h"
#include "simd/math.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

using EpilogueArgs = EpilogueArgsOf<Real>;

// act(v) of that kind, e's parameters; `slope` is read by prelu only.
CONVOY_SIMD Vf activate(int kind, Vf v, const EpilogueArgs& e, Vf slope) {
  const Vf one = broadcast(1);
  const Vf half = broadcast(Real{0.5});
  switch (kind) {
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
      return swish(v, broadcast(e.a));
    case kHardSwish:
      return mul(v, min(one, max(zero(), fma(v, broadcast(Real{1} / 6), half))));
    case kHardSigmoid:
      return min(one, max(zero(), fma(v, broadcast(e.a), broadcast(e.b))));
    case kGelu:
      return mul(mul(half, v), add(one, erf(mul(v, broadcast(Real{0.70710678118654752})))));
    case kGeluTanh: {
      // sqrt(2/pi) * (v + 0.044715 v^3)
      const Vf inner =
          mul(mul(v, broadcast(Real{0.79788456080286536})), fma(mul(v, v), broadcast(Real{0.044715}), one));
      return mul(mul(half, v), add(one, tanh(inner)));
    }
    case kMish: {
      // tanh(log(1+e)) = e(e+2) / (e(e+2)+2); from 40 on it is 1.
      const Vf e1 = exp(min(broadcast(40), v));
      const Vf n = mul(e1, add(e1, broadcast(2)));
      return mul(v, div(n, add(n, broadcast(2))));
    }
    default:
      return v;
  }
}

// Lanes are consecutive channels; `channel` is the first. `z` may be null where gamma is 0.
CONVOY_SIMD void finish_channels_general(Vf acc, const EpilogueArgs& e, std::int64_t channel, Real* out, const Real* z,
                                         Lanes lanes) {
  const Vf bias = e.bias ? load(e.bias + channel, lanes) : zero();
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.beta != 0) v = fma(load(out, lanes), broadcast(e.beta), v);
  if (e.gamma != 0) v = fma(load(z, lanes), broadcast(e.gamma), v);
  const Vf slope = e.activation == kPrelu ? load(e.slopes + channel, lanes) : zero();
  store(out, activate(e.activation, v, e, slope), lanes);
}

// Vectors of the same `lanes` channels, `channel` the first, at several positions. Their accumulators are `acc_step`
// apart; at(i) is where the i-th is in out and z, negative: nowhere.
template <class At>
struct Column {
  const Real* acc;
  std::int64_t acc_step, count;
  std::int64_t channel;
  int lanes;
  Real* out;
  const Real* z;
  At at;
};

template <class At, class Activation>
CONVOY_SIMD void finish_each(const Column<At>& c, const EpilogueArgs& e, Activation activation) {
  const Lanes lanes = first_lanes(c.lanes);
  const Vf alpha = broadcast(e.alpha), beta = broadcast(e.beta), gamma = broadcast(e.gamma);
  const bool reads_out = e.beta != 0, reads_z = e.gamma != 0;
  const Vf bias = e.bias ? load(e.bias + c.channel, lanes) : zero();
  // Nothing in the loop but arithmetic: several vectors are under way at once.
  if (c.lanes == kLanes && !reads_out && !reads_z) {
    for (std::int64_t i = 0; i < c.count; ++i) {
      const std::int64_t at = c.at(i);
      if (at >= 0) store(c.out + at, activation(fma(load(c.acc + i * c.acc_step), alpha, bias)));
    }
    return;
  }
  for (std::int64_t i = 0; i < c.count; ++i) {
    const std::int64_t at = c.at(i);
    if (at < 0) continue;
    Vf v = fma(load(c.acc + i * c.acc_step, lanes), alpha, bias);
    if (reads_out) v = fma(load(c.out + at, lanes), beta, v);
    if (reads_z) v = fma(load(c.z + at, lanes), gamma, v);
    store(c.out + at, activation(v), lanes);
  }
}

// What networks have most is told apart outside of the loop: swish takes a third of the time of asking each time.
template <class At>
CONVOY_SIMD void finish_column(const Column<At>& c, const EpilogueArgs& e) {
  if (e.fast) {
    const Vf low = broadcast(e.low), high = broadcast(e.high);
    return finish_each(c, e, [&](Vf v) { return min(high, max(low, v)); });
  }
  switch (e.activation) {
    case kSwish:
      return finish_each(c, e, [&](Vf v) { return activate(kSwish, v, e, v); });
    case kHardSwish:
      return finish_each(c, e, [&](Vf v) { return activate(kHardSwish, v, e, v); });
    case kSigmoid:
      return finish_each(c, e, [&](Vf v) { return activate(kSigmoid, v, e, v); });
    case kGelu:
      return finish_each(c, e, [&](Vf v) { return activate(kGelu, v, e, v); });
    default: {
      const Vf slope = e.activation == kPrelu ? load(e.slopes + c.channel, first_lanes(c.lanes)) : zero();
      return finish_each(c, e, [&](Vf v) { return activate(e.activation, v, e, slope); });
    }
  }
}

// Lanes are positions of one channel.
CONVOY_SIMD void finish_positions_general(Vf acc, const EpilogueArgs& e, std::int64_t channel, Real* out, const Real* z,
                                          Lanes lanes) {
  const Vf bias = e.bias ? broadcast(e.bias[channel]) : zero();
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.beta != 0) v = fma(load(out, lanes), broadcast(e.beta), v);
  if (e.gamma != 0) v = fma(load(z, lanes), broadcast(e.gamma), v);
  const Vf slope = e.activation == kPrelu ? broadcast(e.slopes[channel]) : zero();
  store(out, activate(e.activation, v, e, slope), lanes);
}

// For full vectors when e.fast: `bias` is the vector of this store's bias (zero() without one).
CONVOY_SIMD void finish_fast(Vf acc, const EpilogueArgs& e, Vf bias, Real* out, const Real* z) {
  Vf v = fma(acc, broadcast(e.alpha), bias);
  if (e.gamma != 0) v = fma(load(z), broadcast(e.gamma), v);
  store(out, min(broadcast(e.high), max(broadcast(e.low), v)));
}

// The form most callers want: n lanes (1..kLanes), the fast path where it applies.
CONVOY_SIMD void finish_channels(Vf acc, const EpilogueArgs& e, std::int64_t channel, Real* out, const Real* z, int n) {
  if (e.fast && n == kLanes) {
    finish_fast(acc, e, e.bias ? load(e.bias + channel) : zero(), out, z);
  } else {
    finish_channels_general(acc, e, channel, out, z, first_lanes(n));
  }
}
CONVOY_SIMD void finish_positions(Vf acc, const EpilogueArgs& e, std::int64_t channel, Real* out, const Real* z,
                                  int n) {
  if (e.fast && n == kLanes) {
    finish_fast(acc, e, e.bias ? broadcast(e.bias[channel]) : zero(), out, z);
  } else {
    finish_positions_general(acc, e, channel, out, z, first_lanes(n));
  }
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
