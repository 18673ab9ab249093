// Words that the four lanes of a quad exchange.
#pragma once

// Lane t of four has channels 2t and 2t + 1 of each 8; afterwards it has all of the t-th 8.
__device__ __forceinline__ void transpose_quad(unsigned (&words)[4]) {
#pragma unroll
  for (int apart = 1; apart <= 2; apart *= 2) {
    const bool upper = (threadIdx.x & apart) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & apart) != 0) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + apart], apart);
      (upper ? words[i] : words[i + apart]) = got;
    }
  }
}
