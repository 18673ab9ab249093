// What mma.cuh has, for g++.
#pragma once

#include "ptx.cuh"
#include "types.cuh"

template <class T>
void mma_k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  if constexpr (same_type<T, bf16>::value) {
    mma_m16n8k16_bf16(d, a, b);
  } else {
    mma_m16n8k16_f16(d, a, b);
  }
}
template <class T>
void mma_k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  mma_k16<T>(d, a0, a1, 0, 0, b0, 0);
}
