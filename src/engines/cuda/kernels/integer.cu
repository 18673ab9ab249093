// fprop of 8-bit integers: sums in 32 bits that wrap, then any epilogue. A thread computes CHANNELS neighbouring
// channels of a pixel from PACK neighbouring channels of x at a time. Unsigned bytes are read as signed ones, 128 less,
// and so are their zero points; what the zero points take off follows from the sums of the bytes.
#include "problem.h"
#include "ptx.cuh"
#include "reference_epilogue.cuh"
#include "work_blocks.cuh"

namespace {

constexpr unsigned every_byte = PACK == 4 ? 0x01010101u : 1u;
constexpr unsigned x_flip = X_TYPE == TYPE_U8 ? 0x80u * every_byte : 0,
                   w_flip = W_TYPE == TYPE_U8 ? 0x80u * every_byte : 0;

template <unsigned flip>
__device__ __forceinline__ int load_bytes(const signed char* p) {
  if constexpr (PACK == 4) return static_cast<int>(__ldg(reinterpret_cast<const unsigned*>(p)) ^ flip);
  return static_cast<signed char>(static_cast<unsigned char>(__ldg(p)) ^ flip);
}
__device__ __forceinline__ int dot(int a, int b, int sum) {
  if constexpr (PACK == 4) return __dp4a(a, b, sum);
  return sum + a * b;
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS), integer, (const ReferenceArgs p, void* out), (p, out)) {
  const long long pixels = p.out.dims[0] * p.out.dims[2] * p.out.dims[3] * p.out.dims[4];
  const long long index = static_cast<long long>(WORK_BLOCK) * THREADS + threadIdx.x;
  const long long blocks = (p.k_per_group + CHANNELS - 1) / CHANNELS;  // of channels, a group's
  const long long group = index / pixels / blocks, first = index / pixels % blocks * CHANNELS;
  if (group * p.c_per_group >= p.x.dims[1]) return;
  const int count = static_cast<int>(p.k_per_group - first < CHANNELS ? p.k_per_group - first : CHANNELS);
  long long rest = index % pixels, at[3], from[3];
  for (int d = 2; d >= 0; --d) {
    at[d] = rest % p.out.dims[2 + d];
    from[d] = at[d] * p.stride[d] - p.pad[d];
    rest /= p.out.dims[2 + d];
  }
  const signed char* const x =
      static_cast<const signed char*>(p.a) + rest * p.x.strides[0] + group * p.c_per_group * p.x.strides[1];
  const signed char* const w = static_cast<const signed char*>(p.b) + (group * p.k_per_group + first) * p.w.strides[0];
  int sums[CHANNELS] = {}, of_w[CHANNELS] = {}, of_x = 0;
  long long taps = 0;
  for (long long d = 0; d < p.w.dims[2]; ++d) {
    const long long z = from[0] + d * p.dilation[0];
    if (z < 0 || z >= p.x.dims[2]) continue;
    for (long long h = 0; h < p.w.dims[3]; ++h) {
      const long long y = from[1] + h * p.dilation[1];
      if (y < 0 || y >= p.x.dims[3]) continue;
      for (long long s = 0; s < p.w.dims[4]; ++s) {
        const long long v = from[2] + s * p.dilation[2];
        if (v < 0 || v >= p.x.dims[4]) continue;
        ++taps;
        const signed char* a = x + z * p.x.strides[2] + y * p.x.strides[3] + v * p.x.strides[4];
        const signed char* b = w + (p.flipped ? p.w.dims[2] - 1 - d : d) * p.w.strides[2] +
                               (p.flipped ? p.w.dims[3] - 1 - h : h) * p.w.strides[3] +
                               (p.flipped ? p.w.dims[4] - 1 - s : s) * p.w.strides[4];
        for (long long c = 0; c < p.c_per_group; c += PACK) {
          const int bytes = load_bytes<x_flip>(a);
          if constexpr (W_ZERO) of_x = dot(bytes, every_byte, of_x);
#pragma unroll
          for (int k = 0; k < CHANNELS; ++k) {
            const int weights = load_bytes<w_flip>(b + (k < count ? k : 0) * p.w.strides[0]);
            sums[k] = dot(bytes, weights, sums[k]);
            if constexpr (X_ZERO) of_w[k] = dot(weights, every_byte, of_w[k]);
          }
          a += PACK * p.x.strides[1];
          b += PACK * p.w.strides[1];
        }
      }
    }
  }
  const unsigned x_zero = (p.a_zero_given != nullptr ? *p.a_zero_given : p.a_zero) - (x_flip != 0 ? 128 : 0);
  for (int k = 0; k < count; ++k) {
    const At place{{rest, group * p.k_per_group + first + k, at[0], at[1], at[2]}};
    const unsigned w_zero =
        (p.b_zeros_given != nullptr ? p.b_zeros_given[place.v[1]] : p.b_zero) - (w_flip != 0 ? 128 : 0);
    unsigned sum = sums[k];
    if constexpr (X_ZERO) sum -= x_zero * of_w[k];
    if constexpr (W_ZERO) sum -= w_zero * of_x;
    if constexpr (X_ZERO && W_ZERO) sum += x_zero * w_zero * static_cast<unsigned>(taps * p.c_per_group);
    const ReferenceRecord r = record_of(p, place, {static_cast<double>(static_cast<int>(sum)), 0, 0, 0, 0});
    store_double<out_type>(out, offset(p.out, place), finished(p, r));
  }
}
