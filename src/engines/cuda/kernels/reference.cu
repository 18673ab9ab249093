// The oracle on the device: the formulas of convoy/convolution.h as plain loops with double accumulation (32 bits that
// wrap for integers). Only types, pass and TEAM are compiled in; everything else comes with the call, in Problem.
//   reference   computes out, whole
//   evaluate    gives what the host needs to judge chosen elements of an output: a Record each
//   largest     max |a| of an operand, for the bound of Winograd's error
//   difference  two outputs beside each other, whole
#include "problem.h"
#include "reference_epilogue.cuh"

namespace {

// Term `i` of the sum behind out[at]: where its factors lie, and a's gate; a is -1 on padding.
struct Term {
  long long a, b, gate = 0;
};

// A value of the first operand times its gate, rounded to its type.
__device__ double gated(const ReferenceArgs& p, double a, long long gate) {
  if (p.gate == nullptr) return a;
  unsigned long long rounded;
  store_double<a_type>(&rounded, 0, a * load_double<a_type>(p.gate, gate));
  return load_double<a_type>(&rounded, 0);
}

__device__ bool input_position(const ReferenceArgs& p, const long long* out, const long long* tap, long long* in) {
  bool inside = true;
  for (int d = 0; d < 3; ++d) {
    in[d] = out[d] * p.stride[d] + tap[d] * p.dilation[d] - p.pad[d];
    inside = inside && in[d] >= 0 && in[d] < p.x.dims[2 + d];
  }
  return inside;
}

__device__ void stored_tap(const ReferenceArgs& p, const long long* tap, long long* stored) {
  for (int d = 0; d < 3; ++d) stored[d] = p.flipped ? p.w.dims[2 + d] - 1 - tap[d] : tap[d];
}

__device__ Term term(const ReferenceArgs& p, const At& at, long long i) {
  long long tap[3], position[3], where[3];
  if constexpr (PASS == PASS_WGRAD) {
    for (int d = 2; d >= 0; --d) {
      position[d] = i % p.y.dims[2 + d];
      i /= p.y.dims[2 + d];
    }
    const long long k = at.v[0];
    const long long c = k / p.k_per_group * p.c_per_group + at.v[1];
    stored_tap(p, at.v + 2, tap);
    const bool inside = input_position(p, position, tap, where);
    return {inside ? offset(p.x, i, c, where) : -1, offset(p.y, i, k, position)};
  } else {
    for (int d = 2; d >= 0; --d) {
      tap[d] = i % p.w.dims[2 + d];
      i /= p.w.dims[2 + d];
    }
    stored_tap(p, tap, position);
    if constexpr (PASS == PASS_FPROP) {
      const long long k = at.v[1];
      const bool inside = input_position(p, at.v + 2, tap, where);
      const long long c = k / p.k_per_group * p.c_per_group + i;
      return {inside ? offset(p.x, at.v[0], c, where) : -1, offset(p.w, k, i, position), at.v[0] * p.x.dims[1] + c};
    } else {
      const long long k = at.v[1] / p.c_per_group * p.k_per_group + i;
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        const long long scaled = at.v[2 + d] + p.pad[d] - tap[d] * p.dilation[d];
        where[d] = scaled / p.stride[d];
        inside = inside && scaled >= 0 && scaled % p.stride[d] == 0 && where[d] < p.y.dims[2 + d];
      }
      return {inside ? offset(p.y, at.v[0], k, where) : -1, offset(p.w, k, at.v[1] % p.c_per_group, position)};
    }
  }
}

__device__ long long terms_of(const ReferenceArgs& p) {
  if (PASS == PASS_WGRAD) return p.x.dims[0] * p.y.dims[2] * p.y.dims[3] * p.y.dims[4];
  return (PASS == PASS_FPROP ? p.c_per_group : p.k_per_group) * p.w.dims[2] * p.w.dims[3] * p.w.dims[4];
}

// The sum behind out[at], by the TEAM threads of a block together; every thread gets it. Threads take every TEAM-th
// term and their sums are added as a tree: the same order each time.
__device__ Sum reduce(const ReferenceArgs& p, const At& at) {
  Sum s{0, 0, 0, 0, 0};
  const unsigned a_zero = static_cast<unsigned>(p.a_zero_given != nullptr ? *p.a_zero_given : p.a_zero);
  const unsigned b_zero =
      static_cast<unsigned>(p.b_zeros_given != nullptr ? p.b_zeros_given[channel_of(at)] : p.b_zero);
  const long long count = terms_of(p);
  const int rank = TEAM == 1 ? 0 : threadIdx.x;
  for (long long i = rank; i < count; i += TEAM) {
    const Term t = term(p, at, i);
    const double b = load_double<b_type>(p.b, t.b);
    s.window_b += fabs(b);
    if (t.a < 0) continue;
    const double a = gated(p, load_double<a_type>(p.a, t.a), t.gate);
    ++s.terms;
    if constexpr (integers) {
      const unsigned product =
          (static_cast<unsigned>(static_cast<int>(a)) - a_zero) * (static_cast<unsigned>(static_cast<int>(b)) - b_zero);
      s.wrapped += product;
      s.sum_abs += fabs(static_cast<double>(static_cast<int>(product)));
    } else {
      s.sum += a * b;
      s.sum_abs += fabs(a * b);
    }
  }
  if constexpr (TEAM > 1) {
    __shared__ Sum sums[TEAM];
    __syncthreads();
    sums[rank] = s;
    __syncthreads();
    for (int half = TEAM / 2; half > 0; half /= 2) {
      if (rank < half) {
        const Sum& other = sums[rank + half];
        sums[rank].sum += other.sum;
        sums[rank].sum_abs += other.sum_abs;
        sums[rank].window_b += other.window_b;
        sums[rank].terms += other.terms;
        sums[rank].wrapped += other.wrapped;
      }
      __syncthreads();
    }
    s = sums[0];
  }
  if constexpr (integers) s.sum = static_cast<double>(static_cast<int>(s.wrapped));
  return s;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) reference(const ReferenceArgs p, void* out) {
  constexpr int teams = THREADS / TEAM;
  const long long total = p.out.dims[0] * p.out.dims[1] * p.out.dims[2] * p.out.dims[3] * p.out.dims[4];
  for (long long i = static_cast<long long>(blockIdx.x) * teams + threadIdx.x / TEAM; i < total;
       i += static_cast<long long>(gridDim.x) * teams) {
    const At at = coords(p.out, i);
    const Sum s = reduce(p, at);
    if (TEAM > 1 && threadIdx.x != 0) continue;
    const ReferenceRecord r = record_of(p, at, s);
    store_double<out_type>(out, offset(p.out, at), finished(p, r));
    // Channel padding behind the last channel is zero.
    if (p.out.block > 1 && at.v[1] == p.out.dims[1] - 1) {
      const long long last = offset(p.out, at);
      for (long long c = p.out.dims[1]; c % p.out.block != 0; ++c) {
        store_double<out_type>(out, last + c - at.v[1], 0);
      }
    }
  }
}

// One record for each index (row-major in out's five dims; null: all elements in order), and `actual` there.
extern "C" __global__ void __launch_bounds__(THREADS)
    evaluate(const ReferenceArgs p, const long long* indices, long long count, ReferenceRecord* records) {
  constexpr int teams = THREADS / TEAM;
  for (long long i = static_cast<long long>(blockIdx.x) * teams + threadIdx.x / TEAM; i < count;
       i += static_cast<long long>(gridDim.x) * teams) {
    const At at = coords(p.out, indices != nullptr ? indices[i] : i);
    const Sum s = reduce(p, at);
    if (TEAM > 1 && threadIdx.x != 0) continue;
    records[i] = record_of(p, at, s);
  }
}

// What an execution wrote at each index, as doubles; `padding[i]`: the first element of the channel padding behind it
// that is not zero, or 0.
extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const ReferenceArgs p, const void* out, const long long* indices, long long count, double* values,
           double* padding) {
  for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < count;
       i += static_cast<long long>(gridDim.x) * THREADS) {
    const At at = coords(p.out, indices != nullptr ? indices[i] : i);
    const long long where = offset(p.out, at);
    values[i] = load_double<out_type>(out, where);
    double filler = 0;
    if (p.out.block > 1 && at.v[1] == p.out.dims[1] - 1) {
      for (long long c = p.out.dims[1]; c % p.out.block != 0 && filler == 0; ++c) {
        filler = load_double<out_type>(out, where + c - at.v[1]);
      }
    }
    padding[i] = filler;
  }
}

// The bits of max |a|; `result` is 0 before. Non-negative doubles are ordered as their bits are.
extern "C" __global__ void __launch_bounds__(THREADS) largest(const ReferenceArgs p, unsigned long long* result) {
  const ReferenceTensor& t = PASS == PASS_DGRAD ? p.y : p.x;
  const long long total = t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3] * t.dims[4];
  double most = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < total;
       i += static_cast<long long>(gridDim.x) * THREADS) {
    const At at = coords(t, i);
    const double v = fabs(gated(p, load_double<a_type>(p.a, offset(t, at)), at.v[0] * t.dims[1] + at.v[1]));
    if (v > most) most = v;
  }
  atomicMax(result, static_cast<unsigned long long>(__double_as_longlong(most)));
}

// Stored elements of two outputs: the bits of the largest finite |expected| and of the largest |actual - expected|,
// which is infinite where only one is a NaN. Both results are 0 before.
extern "C" __global__ void __launch_bounds__(THREADS)
    difference(const void* expected, const void* actual, long long count, unsigned long long* results) {
  double largest = 0;
  double apart = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < count;
       i += static_cast<long long>(gridDim.x) * THREADS) {
    const double e = load_double<out_type>(expected, i);
    const double a = load_double<out_type>(actual, i);
    if (isfinite(e)) largest = fmax(largest, fabs(e));
    if (isnan(e) != isnan(a)) {
      apart = __longlong_as_double(0x7ff0000000000000ll);
    } else if (a != e) {
      apart = fmax(apart, fabs(a - e));  // fmax drops the NaN of two NaNs
    }
  }
  atomicMax(results, static_cast<unsigned long long>(__double_as_longlong(largest)));
  atomicMax(results + 1, static_cast<unsigned long long>(__double_as_longlong(apart)));
}
