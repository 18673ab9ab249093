// What wgmma.cuh has, for g++: products of 16-bit operands that lie in shared memory unswizzled, K contiguous. Each
// thread reads what its own sums are of.
#pragma once

#include "ptx.cuh"
#include "types.cuh"

static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int pending, int M>
void wgmma_wait(float (&)[M]) {}

template <int swizzle_bytes>
unsigned long long wgmma_descriptor(unsigned address, int leading_bytes, int stride_bytes) {
  static_assert(swizzle_bytes == 0, "swizzled operands are not walked");
  require(address % 16 == 0 && leading_bytes % 16 == 0 && stride_bytes % 16 == 0, "wgmma_descriptor");
  return (address & 0x3ffffull) >> 4 | static_cast<unsigned long long>(leading_bytes >> 4) << 16 |
         static_cast<unsigned long long>(stride_bytes >> 4) << 32;
}

namespace walk {
template <class T>
float element_of(unsigned long long descriptor, unsigned row, unsigned k) {
  const auto field = [&](int shift) { return static_cast<unsigned>(descriptor >> shift & 0x3fff) << 4; };
  T element;
  std::memcpy(&element, dynamic_shared + field(0) + row / 8 * field(32) + row % 8 * 16 + k / 8 * field(16) + k % 8 * 2,
              2);
  return to_float(element);
}
}  // namespace walk

template <class T, int M>
void wgmma(float (&d)[M], unsigned long long a, unsigned long long b, bool accumulate) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (unsigned i = 0; i < M; ++i) {
    const unsigned row = 16 * warp + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = accumulate ? d[i] : 0;
    for (unsigned k = 0; k < 16; ++k) sum += walk::element_of<T>(a, row, k) * walk::element_of<T>(b, column, k);
    d[i] = sum;
  }
}
