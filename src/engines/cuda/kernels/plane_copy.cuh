// Planes of packed 16-bit NCHW tensors in shared memory: rows `pitch` bytes apart, `left` columns of zeros before the
// first, so that rows of any length meet the tensor cores' 16 bytes.
#pragma once

#include "shared_copy.cuh"
#include "types.cuh"

// Zeros `bytes` bytes, a multiple of 16.
template <int bytes, int threads>
__device__ __forceinline__ void clear_shared(char* shared) {
  for (int i = threadIdx.x; i < bytes / 16; i += threads) reinterpret_cast<uint4*>(shared)[i] = make_uint4(0, 0, 0, 0);
}

// Starts copying rows [first, last) of `planes` neighbouring planes to `shared`, where row `origin` of the first plane
// begins and planes lie plane_bytes apart. Pieces are as large as the rows' alignment allows.
template <class T, int threads, int height, int width, int left, int pitch, int plane_bytes, int rows>
__device__ __forceinline__ void copy_planes(char* shared, const T* from, int planes, int first, int last, int origin) {
  constexpr int piece = width % 8 == 0 ? 8 : width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;  // elements
  constexpr int pieces = width / piece;
  const unsigned target = shared_address(shared) + left * 2;
  for (int i = threadIdx.x; i < planes * rows * pieces; i += threads) {
    const int row = first + i / pieces % rows;
    const int plane = i / (pieces * rows);
    if (row >= last) continue;
    const T* source = from + (plane * height + row) * width + i % pieces * piece;
    const unsigned to = target + plane * plane_bytes + (row - origin) * pitch + i % pieces * piece * 2;
    if constexpr (piece == 8) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(source) : "memory");
    } else if constexpr (piece == 1) {
      const unsigned short bits = __ldg(reinterpret_cast<const unsigned short*>(source));
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(bits) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(piece * 2) : "memory");
    }
  }
}
