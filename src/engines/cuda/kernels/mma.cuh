// Products of 16-bit matrices on the tensor cores, f32 sums. Lane l of a warp is (g, t) = (l / 4, l % 4); its elements:
//   a: rows g (words 0, 2) and g + 8 (words 1, 3), columns 2t, 2t + 1 (words 0, 1) and 2t + 8, 2t + 9 (words 2, 3)
//   b: column g, rows 2t, 2t + 1 (word 0) and 2t + 8, 2t + 9 (word 1)
//   d: rows g (0, 1) and g + 8 (2, 3), columns 2t (0, 2) and 2t + 1 (1, 3)
#pragma once

#include "types.cuh"

#define CONVOY_MMA(shape, type, ...) asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 " __VA_ARGS__)

// d += a * b, 16 x 16 times 16 x 8.
template <class T>
__device__ __forceinline__ void mma_k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                        unsigned b1) {
  if constexpr (same_type<T, bf16>::value) {
    CONVOY_MMA("m16n8k16", "bf16", "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    CONVOY_MMA("m16n8k16", "f16", "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// The same with 16 x 8 times 8 x 8: a's columns and b's rows from 8 on are left out.
template <class T>
__device__ __forceinline__ void mma_k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  if constexpr (same_type<T, bf16>::value) {
    CONVOY_MMA("m16n8k8", "bf16", "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b0));
  } else {
    CONVOY_MMA("m16n8k8", "f16", "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b0));
  }
}
