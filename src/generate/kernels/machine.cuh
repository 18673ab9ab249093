// What generated kernels need of a GPU besides CUDA C. Without a header of CUDA's: the conversions are PTX.
#pragma once

__device__ __forceinline__ float float_of_f16(unsigned short bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
__device__ __forceinline__ unsigned short f16_of_float(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ float float_of_bf16(unsigned short bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ __forceinline__ unsigned short bf16_of_float(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

#define SHARED(type, name, count) __shared__ type name[count]

// Clusters, which GPUs have from sm_90 on.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// What block `share` of the cluster has where p points to in this block's array of `count` in shared memory.
template <int count, class C>
__device__ __forceinline__ C of_share(const C* p, int share) {
  unsigned long long there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(share));
  return *reinterpret_cast<const volatile C*>(there);
}

// The nearest float towards 0, with its last bit set where it isn't the number itself: a second rounding is then right.
__device__ __forceinline__ float odd_float_of(double v) {
  const float near = __double2float_rz(v);
  return static_cast<double>(near) == v || v != v ? near : __uint_as_float(__float_as_uint(near) | 1u);
}
