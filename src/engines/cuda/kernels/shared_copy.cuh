// Copies between global and shared memory of ranges of elements that begin and end anywhere, by 16 bytes where that is
// possible. A range keeps its phase modulo 16 bytes: element i of the range lies at shared + phase(begin) + i.
#pragma once

#include "ptx.cuh"
#include "types.cuh"

template <class T>
__device__ __forceinline__ int phase(long long begin) {
  return static_cast<int>(begin * sizeof(T) % 16 / sizeof(T));
}

// Bytes of shared memory that a range of `elements` may take.
template <class T>
__host__ __device__ constexpr int room(int elements) {
  return (elements * static_cast<int>(sizeof(T)) + 15) / 16 * 16 + 16;
}

// Starts copying elements [begin, end) of `from` (aligned to 16 bytes, `total` elements long) to `shared`; what lies in
// the same 16 bytes comes along, but nothing past `total`. cp_async_wait ends it.
template <class T, int threads>
__device__ __forceinline__ void copy_in(char* shared, const T* from, long long begin, long long end, long long total) {
  const long long first = begin * static_cast<long long>(sizeof(T)) / 16 * 16;
  const long long last = end * static_cast<long long>(sizeof(T));
  const long long limit = total * static_cast<long long>(sizeof(T));
  const char* source = reinterpret_cast<const char*>(from) + first;
  const int chunks = static_cast<int>((last - first + 15) / 16);
  const int full = static_cast<int>((limit - first) / 16);
  const unsigned target = shared_address(shared);
  for (int i = threadIdx.x; i < chunks; i += threads) {
    const int bytes = i < full ? 16 : static_cast<int>(limit - first - 16ll * i);
    cp_async<16>(target + 16 * i, source + 16ll * i, bytes);
  }
}

// Copies a range in shared memory (with the phase of `begin`) to elements [begin, end) of `to`, aligned to 16 bytes.
template <class T, int threads>
__device__ __forceinline__ void copy_out(T* to, const char* shared, long long begin, long long end) {
  constexpr int per_chunk = 16 / static_cast<int>(sizeof(T));
  const long long first = begin / per_chunk * per_chunk;
  const int chunks = static_cast<int>((end - first + per_chunk - 1) / per_chunk);
  for (int i = threadIdx.x; i < chunks; i += threads) {
    const long long at = first + static_cast<long long>(i) * per_chunk;
    const char* source = shared + 16 * i;
    if (at >= begin && at + per_chunk <= end) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(source);
    } else {
      for (int e = 0; e < per_chunk; ++e) {
        if (at + e >= begin && at + e < end) to[at + e] = reinterpret_cast<const T*>(source)[e];
      }
    }
  }
}

// One element of shared memory as a float.
template <class T>
__device__ __forceinline__ float load_shared(unsigned address) {
  if constexpr (sizeof(T) == 2) {
    return half_to_float<T>(load_shared_u16(address), 0);
  } else {
    return load_shared_f32(address);
  }
}
