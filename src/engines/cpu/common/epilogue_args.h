// The epilogue of one execution as kernels read it: plain data, shared by units of every instruction set.
//   out = act(alpha*acc + beta*out + bias[channel] + gamma*z)
#pragma once

#include <cstdint>

namespace convoy::cpu {

// The same values as convoy::ActivationKind (checked where the struct is filled).
enum EpilogueActivation : std::int32_t {
  kIdentity,
  kRelu,
  kClip,
  kLeakyRelu,
  kPrelu,
  kElu,
  kSigmoid,
  kTanh,
  kSwish,
  kHardSwish,
  kHardSigmoid,
  kGelu,
  kGeluTanh,
  kMish,
};

// Of tensors of Real, float or double.
template <class Real>
struct EpilogueArgsOf {
  Real alpha;
  Real beta;                // 0: out is never read
  Real gamma;               // 0: z is never read
  const Real* bias;         // one per channel of out, or null
  const float* slopes;      // prelu: one per channel of out, f32 whatever the tensors are
  std::int32_t activation;  // EpilogueActivation
  Real a, b;                // its parameters
  // The common case: beta == 0 and the activation is min(max(v, low), high), infinite bounds included.
  bool fast;
  Real low, high;
  bool plain;  // out = acc
};

using EpilogueArgs = EpilogueArgsOf<float>;

}  // namespace convoy::cpu
