// The epilogue that every engine's kernels end with: out = q(act(alpha*sum + beta*out + bias + gamma*z)), in f32, on
// the sums of V neighbouring channels of one output position, or (step 0) of V neighbouring positions of one channel.
// What the problem doesn't have costs nothing: ALPHA, BETA, GAMMA, BIAS, NARROW_BIAS, ACTIVATION, ACTIVATION_A and
// ACTIVATION_B are constants (convoy/convolution.h).
#pragma once

#include "problem.h"
#include "ptx.cuh"
#include "types.cuh"

struct EpilogueArgs {
  const void* bias;  // f32; with NARROW_BIAS of out's type
  const void* z;     // described like out
  const float* slopes;
};

// What is rounded to 16 bits is computed to some 2^-17 of it, by a handful of instructions: with the exact functions
// the epilogue, not the memory, is what a 1x1 convolution waits for.
template <class T>
__device__ __forceinline__ float sigmoid(float v) {
  if constexpr (sizeof(T) == 2) return rcp_approx_ftz(1.0f + ex2_approx_ftz(-1.44269504f * v));
  return 1.0f / (1.0f + expf(-v));
}

// v times the normal distribution's share below v. For 16 bits that of -|v| is 2^p(|v|), p a polynomial fitted to 7e-6
// of the share down to 4e-11; below, it is less than the true share.
template <class T>
__device__ __forceinline__ float gelu(float v) {
  if constexpr (sizeof(T) == 2) {
    const float a = fabsf(v);
    float p = fmaf(a, -1.7577504e-06f, 5.99360101e-05f);
    p = fmaf(a, p, -0.000916358025f);
    p = fmaf(a, p, 0.00844736397f);
    p = fmaf(a, p, -0.0538244545f);
    p = fmaf(a, p, -0.45861575f);
    p = fmaf(a, p, -1.15118015f);
    const float outer = ex2_approx_ftz(fmaf(a, p, -1.00000393f));
    return v * (v < 0 ? outer : 1.0f - outer);
  }
  return 0.5f * v * erfcf(-v * 0.70710678f);
}

__device__ __forceinline__ float clip(float v, float low, float high) {
  const float raised = v < low ? low : v;  // NaN stays NaN
  return raised > high ? high : raised;
}

template <class T>
__device__ __forceinline__ float activate(float v, const EpilogueArgs& args, int channel) {
  if constexpr (ACTIVATION == ACTIVATION_RELU) return v < 0 ? 0.0f : v;
  if constexpr (ACTIVATION == ACTIVATION_CLIP) return clip(v, ACTIVATION_A, ACTIVATION_B);
  if constexpr (ACTIVATION == ACTIVATION_LEAKY_RELU) return v < 0 ? ACTIVATION_A * v : v;
  if constexpr (ACTIVATION == ACTIVATION_PRELU) return v < 0 ? args.slopes[channel] * v : v;
  if constexpr (ACTIVATION == ACTIVATION_ELU) return v < 0 ? ACTIVATION_A * expm1f(v) : v;
  if constexpr (ACTIVATION == ACTIVATION_SIGMOID) return sigmoid<T>(v);
  if constexpr (ACTIVATION == ACTIVATION_TANH) return tanhf(v);
  if constexpr (ACTIVATION == ACTIVATION_SWISH) return v * sigmoid<T>(ACTIVATION_A * v);
  if constexpr (ACTIVATION == ACTIVATION_HARD_SWISH) return v * clip(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
  if constexpr (ACTIVATION == ACTIVATION_HARD_SIGMOID) return clip(ACTIVATION_A * v + ACTIVATION_B, 0.0f, 1.0f);
  if constexpr (ACTIVATION == ACTIVATION_GELU) return gelu<T>(v);
  if constexpr (ACTIVATION == ACTIVATION_GELU_TANH) {
    return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
  }
  if constexpr (ACTIVATION == ACTIVATION_MISH) {
    return v * tanhf(v > 0 ? v + log1pf(expf(-v)) : log1pf(expf(v)));
  }
  return v;
}

template <class T>
__device__ __forceinline__ float bias_of(const EpilogueArgs& args, int channel) {
  if constexpr (NARROW_BIAS) return to_float(static_cast<const T*>(args.bias)[channel]);
  return static_cast<const float*>(args.bias)[channel];
}

template <class T, int V, int step = 1>
__device__ __forceinline__ void load_bias(float (&bias)[V], int channel, const EpilogueArgs& args) {
#pragma unroll
  for (int i = 0; i < V; ++i) bias[i] = bias_of<T>(args, channel + step * i);
}

// What is known of V outputs before their sums are.
template <class T, int V>
struct Beside {
  Raw<T, V> prior, z;

  // Of elements out[at], .. out[at + V - 1].
  __device__ __forceinline__ void load(const T* out, long long at, const EpilogueArgs& args) {
    if constexpr (BETA != 0.0f) prior = load_mutable<T, V>(out + at);
    if constexpr (GAMMA != 0.0f) z = load_mutable<T, V>(static_cast<const T*>(args.z) + at);
  }
};

// Of channels `channel` on, whose biases are bias[0], .. bias[V - 1].
template <class T, int V, int step = 1>
__device__ __forceinline__ void epilogue(float (&v)[V], const Beside<T, V>& beside, const float (&bias)[V], int channel,
                                         const EpilogueArgs& args) {
  float prior[V], z[V];
  if constexpr (BETA != 0.0f) unpack<T, V>(beside.prior, prior);
  if constexpr (GAMMA != 0.0f) unpack<T, V>(beside.z, z);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if constexpr (ALPHA != 1.0f) v[i] *= ALPHA;
    if constexpr (BETA != 0.0f) v[i] = fmaf(BETA, prior[i], v[i]);
    if constexpr (BIAS) v[i] += bias[i];
    if constexpr (GAMMA != 0.0f) v[i] = fmaf(GAMMA, z[i], v[i]);
    v[i] = activate<T>(v[i], args, channel + step * i);
  }
}
// Elements out[at], .. out[at + V - 1].
template <class T, int V, int step = 1>
__device__ __forceinline__ void epilogue(float (&v)[V], const T* out, long long at, int channel,
                                         const EpilogueArgs& args) {
  Beside<T, V> beside;
  beside.load(out, at, args);
  float bias[V];
  if constexpr (BIAS) load_bias<T, V, step>(bias, channel, args);
  epilogue<T, V, step>(v, beside, bias, channel, args);
}

template <class T, int V, int step = 1>
__device__ __forceinline__ void finish(const float (&sum)[V], T* out, long long at, int channel,
                                       const EpilogueArgs& args) {
  float v[V];
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = sum[i];
  epilogue<T, V, step>(v, out, at, channel, args);
  store_raw<T, V>(out + at, pack<T, V>(v));
}

// One element as out has it, for kernels that store it themselves.
template <class T>
__device__ __forceinline__ T finished(float sum, const T* out, long long at, int channel, const EpilogueArgs& args) {
  float v[1] = {sum};
  epilogue<T, 1>(v, out, at, channel, args);
  return from_float<T>(v[0]);
}
