// What all generated kernels share: element types, their conversions, loads and stores of neighbours, sums of a block.
#pragma once

#include "machine.cuh"

// ---- element types as tensors have them

struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct boolean {
  unsigned char byte;
};

// An index along a dim of `size`, of which a negative one counts from its end.
__device__ __forceinline__ long long from_end(long long index, long long size) {
  return index < 0 ? index + size : index;
}

// The index along a dim of `size` that is the whole part of a value; outside of the dim -1.
template <class I, class C>
__device__ __forceinline__ I index_of(C value, long long size) {
  return value >= static_cast<C>(0) && value < static_cast<C>(size) ? static_cast<I>(value) : static_cast<I>(-1);
}

// An element in the type C that is computed in.
template <class C, class T>
__device__ __forceinline__ C value_of(T v) {
  return static_cast<C>(v);
}
template <class C>
__device__ __forceinline__ C value_of(f16 v) {
  return static_cast<C>(float_of_f16(v.bits));
}
template <class C>
__device__ __forceinline__ C value_of(bf16 v) {
  return static_cast<C>(float_of_bf16(v.bits));
}
template <class C>
__device__ __forceinline__ C value_of(boolean v) {
  return static_cast<C>(v.byte != 0 ? 1 : 0);
}

// Floats as whole numbers: towards 0, NaN is 0, what 64 bits don't hold their nearest; narrower ones wrap from 64 bits.
template <class T>
__device__ __forceinline__ T whole_of(double v) {
  constexpr double two63 = 9223372036854775808.0;
  constexpr bool unsigned64 = sizeof(T) == 8 && static_cast<T>(-1) > static_cast<T>(0);
  if (v != v) return static_cast<T>(0);
  if (unsigned64 && v >= two63) {
    return v < 2 * two63 ? static_cast<T>(static_cast<unsigned long long>(v)) : static_cast<T>(~0ull);
  }
  if (v >= two63) return static_cast<T>(0x7fffffffffffffffll);
  if (v < -two63) return static_cast<T>(-0x7fffffffffffffffll - 1);
  return static_cast<T>(static_cast<long long>(v));
}

template <class T>
struct Element {
  template <class C>
  __device__ static __forceinline__ T of(C v) {
    return static_cast<T>(v);
  }
  __device__ static __forceinline__ T of(float v) { return whole_of<T>(v); }
  __device__ static __forceinline__ T of(double v) { return whole_of<T>(v); }
};
template <>
struct Element<float> {
  template <class C>
  __device__ static __forceinline__ float of(C v) {
    return static_cast<float>(v);
  }
};
template <>
struct Element<double> {
  template <class C>
  __device__ static __forceinline__ double of(C v) {
    return static_cast<double>(v);
  }
};
template <>
struct Element<f16> {
  __device__ static __forceinline__ f16 of(float v) { return {f16_of_float(v)}; }
  template <class C>
  __device__ static __forceinline__ f16 of(C v) {
    return {f16_of_float(odd_float_of(static_cast<double>(v)))};
  }
};
template <>
struct Element<bf16> {
  __device__ static __forceinline__ bf16 of(float v) { return {bf16_of_float(v)}; }
  template <class C>
  __device__ static __forceinline__ bf16 of(C v) {
    return {bf16_of_float(odd_float_of(static_cast<double>(v)))};
  }
};
template <>
struct Element<boolean> {
  template <class C>
  __device__ static __forceinline__ boolean of(C v) {
    return {static_cast<unsigned char>(v != static_cast<C>(0) ? 1 : 0)};
  }
};

// ---- neighbours

template <int bytes>
struct Words;
template <>
struct Words<1> {
  typedef unsigned char type;
};
template <>
struct Words<2> {
  typedef unsigned short type;
};
template <>
struct Words<4> {
  typedef unsigned type;
};
template <>
struct Words<8> {
  typedef uint2 type;
};
template <>
struct Words<16> {
  typedef uint4 type;
};

// V elements from p on, which is aligned to their bytes, or to 16 where they are more.
template <int V, class C, class T>
__device__ __forceinline__ void load(C (&v)[V], const T* p) {
  constexpr int bytes = V * static_cast<int>(sizeof(T)) < 16 ? V * static_cast<int>(sizeof(T)) : 16;
  constexpr int count = bytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < V; i += count) {
    typedef typename Words<bytes>::type W;
    const W word = *reinterpret_cast<const W*>(p + i);
    T elements[count];
    memcpy(elements, &word, bytes);
#pragma unroll
    for (int k = 0; k < count; ++k) v[i + k] = value_of<C>(elements[k]);
  }
}
template <int V, class C, class T>
__device__ __forceinline__ void store(const C (&v)[V], T* p) {
  constexpr int bytes = V * static_cast<int>(sizeof(T)) < 16 ? V * static_cast<int>(sizeof(T)) : 16;
  constexpr int count = bytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < V; i += count) {
    typedef typename Words<bytes>::type W;
    T elements[count];
#pragma unroll
    for (int k = 0; k < count; ++k) elements[k] = Element<T>::of(v[i + k]);
    W word;
    memcpy(&word, elements, bytes);
    *reinterpret_cast<W*>(p + i) = word;
  }
}
// V elements `step` apart.
template <int V, class C, class T, class I>
__device__ __forceinline__ void load_apart(C (&v)[V], const T* p, I step) {
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = value_of<C>(p[i * step]);
}
// V numbers `step` apart, from `first` on.
template <int V, class C, class I>
__device__ __forceinline__ void count_from(C (&v)[V], I first, I step) {
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = static_cast<C>(first + i * step);
}
template <int V, class C>
__device__ __forceinline__ void fill(C (&v)[V], C value) {
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = value;
}

// ---- blocks

// Of `rows` * `lanes` threads those of a lane join their V values, in the same order each time, and afterwards each has
// its lane's. All threads of the block take part; `exchange` has room for all their values.
template <int rows, int lanes, int V, class C, class Join>
__device__ __forceinline__ void join_rows(C (&v)[V], C* exchange, int row, int lane, const Join& join) {
  C* const own = exchange + row * lanes + lane;
  constexpr int apart = rows * lanes;
  __syncthreads();  // what an earlier fold left has been read
#pragma unroll
  for (int i = 0; i < V; ++i) own[i * apart] = v[i];
  __syncthreads();
#pragma unroll
  for (int half = rows / 2; half > 0; half /= 2) {
    if (row < half) {
#pragma unroll
      for (int i = 0; i < V; ++i) own[i * apart] = join(own[i * apart], own[i * apart + half * lanes]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = exchange[i * apart + lane];
}
// The same of at most 32 rows that are neighbours in a warp; all threads of the block take part.
template <int rows, class C, class Join>
__device__ __forceinline__ void join_neighbours(C& v, const Join& join) {
#pragma unroll
  for (int half = rows / 2; half > 0; half /= 2) v = join(v, __shfl_down_sync(0xffffffffu, v, half, rows));
  v = __shfl_sync(0xffffffffu, v, 0, rows);
}
// What the blocks of a cluster have of their lanes, the same in all rows, they join in the same order each time, and
// afterwards each has its lane's. All threads take part; `shown` and `joined` have room for the values of all lanes.
template <int shares, int rows, int lanes, int V, class C, class Join>
__device__ __forceinline__ void join_shares(C (&v)[V], C* shown, C* joined, int row, int lane, const Join& join) {
  constexpr int values = lanes * V;
  if (row == 0) {
#pragma unroll
    for (int i = 0; i < V; ++i) shown[i * lanes + lane] = v[i];
  }
  cluster_sync();
  for (int i = static_cast<int>(threadIdx.x); i < values; i += rows * lanes) {
    C sum = of_share<values>(shown + i, 0);
#pragma unroll
    for (int share = 1; share < shares; ++share) sum = join(sum, of_share<values>(shown + i, share));
    joined[i] = sum;
  }
  cluster_sync();  // now all have read, and a block may end or show other values
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = joined[i * lanes + lane];
}
