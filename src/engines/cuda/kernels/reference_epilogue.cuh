// What an output becomes of its sum by the formulas of convoy/convolution.h, in f64, for every problem: of the oracle,
// and of kernels whose sums are exact. Types and pass are compiled in, everything else comes with the call.
#pragma once

#include "problem.h"
#include "reference_args.h"
#include "scalar.cuh"

namespace {

constexpr bool integers = COMPUTE_TYPE == TYPE_S32;
constexpr int a_type = PASS == PASS_DGRAD ? Y_TYPE : X_TYPE;
constexpr int b_type = PASS == PASS_WGRAD ? Y_TYPE : W_TYPE;
constexpr int out_type = PASS == PASS_FPROP ? Y_TYPE : PASS == PASS_DGRAD ? X_TYPE : W_TYPE;

struct At {
  long long v[5];
};

__device__ At coords(const ReferenceTensor& t, long long index) {
  At at;
  for (int i = 4; i >= 0; --i) {
    at.v[i] = index % t.dims[i];
    index /= t.dims[i];
  }
  return at;
}

__device__ long long offset(const ReferenceTensor& t, long long n, long long c, const long long* sp) {
  const long long channel = t.block == 1 ? c * t.strides[1] : c / t.block * t.strides[1] + c % t.block;
  return n * t.strides[0] + channel + sp[0] * t.strides[2] + sp[1] * t.strides[3] + sp[2] * t.strides[4];
}
__device__ long long offset(const ReferenceTensor& t, const At& at) { return offset(t, at.v[0], at.v[1], at.v + 2); }

struct Sum {
  double sum, sum_abs, window_b;  // window_b: sum |b| over the whole window, padding included
  long long terms;
  unsigned wrapped;
};

__device__ long long channel_of(const At& at) { return PASS == PASS_WGRAD ? at.v[0] : at.v[1]; }

__device__ double sigmoid(double v) {
  if (v >= 0) return 1 / (1 + exp(-v));
  const double e = exp(v);
  return e / (1 + e);
}
__device__ double softplus(double v) { return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)); }
__device__ double clip(double v, double low, double high) {
  const double raised = v < low ? low : v;
  return raised > high ? high : raised;
}

__device__ double activate(const ReferenceArgs& p, double v, double slope) {
  const double a = p.activation_a;
  const double b = p.activation_b;
  switch (p.activation) {
    case ACTIVATION_RELU:
      return v < 0 ? 0 : v;
    case ACTIVATION_CLIP:
      return clip(v, a, b);
    case ACTIVATION_LEAKY_RELU:
      return v < 0 ? a * v : v;
    case ACTIVATION_PRELU:
      return v < 0 ? slope * v : v;
    case ACTIVATION_ELU:
      return v < 0 ? a * expm1(v) : v;
    case ACTIVATION_SIGMOID:
      return sigmoid(v);
    case ACTIVATION_TANH:
      return tanh(v);
    case ACTIVATION_SWISH:
      return v * sigmoid(a * v);
    case ACTIVATION_HARD_SWISH:
      return v * clip(v / 6 + 0.5, 0, 1);
    case ACTIVATION_HARD_SIGMOID:
      return clip(a * v + b, 0, 1);
    case ACTIVATION_GELU:
      return 0.5 * v * erfc(-v * 0.70710678118654752440);
    case ACTIVATION_GELU_TANH:
      return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case ACTIVATION_MISH:
      return v * tanh(softplus(v));
    default:
      return v;
  }
}

__device__ ReferenceRecord record_of(const ReferenceArgs& p, const At& at, const Sum& s) {
  ReferenceRecord r;
  const long long where = offset(p.out, at);
  const long long channel = channel_of(at);
  r.sum = s.sum;
  r.sum_abs = s.sum_abs;
  r.window_b = s.window_b;
  r.terms = s.terms;
  r.prior = p.beta != 0 ? load_double<out_type>(p.prior, where) : 0;
  r.bias = 0;
  if (p.bias != nullptr) {
    if constexpr (COMPUTE_TYPE == TYPE_F64) {
      r.bias = static_cast<const double*>(p.bias)[channel];
    } else if constexpr (integers) {
      r.bias = p.float_bias ? static_cast<const float*>(p.bias)[channel] : static_cast<const int*>(p.bias)[channel];
    } else if (p.narrow_bias) {
      r.bias = load_double<out_type>(p.bias, channel);
    } else {
      r.bias = static_cast<const float*>(p.bias)[channel];
    }
  }
  r.z = p.gamma != 0 || p.residual ? load_double<out_type>(p.z, where) : 0;
  r.slope = p.slopes != nullptr ? p.slopes[channel] : 0;
  r.scale = p.scales != nullptr ? p.scales[p.scale_per_channel ? channel : 0] : 1;
  return r;
}

__device__ double finished(const ReferenceArgs& p, const ReferenceRecord& r) {
  double v = p.alpha * r.sum;
  if (p.beta != 0) v += p.beta * r.prior;
  if (p.bias != nullptr) v += r.bias;
  if (p.gamma != 0) v += p.gamma * r.z;
  v = activate(p, v, r.slope);
  if (p.scales != nullptr) v *= r.scale;
  if (p.residual) {
    const double t = fmin(fmax(rint(v) + p.t_zero, p.low), p.high);
    v = (t - p.t_zero) * p.t_scale + (r.z - p.z_zero) * p.z_scale;
  }
  return p.rounds ? rint(v) + p.out_zero : v;
}

}  // namespace
