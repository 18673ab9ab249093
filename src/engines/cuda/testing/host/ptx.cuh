// What ptx.cuh has, for g++, as far as kernels that are walked use it: blocks one after another, a block's threads in
// turn (generate/testing/machine.cuh). What a warp does together its lanes put down, then all take their part.
// Addresses of shared memory count from the beginning of a block's.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "machine.cuh"

#define Index KernelIndex  // axis.cuh's
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __host__

alignas(1024) static char dynamic_shared[232448];

static inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const char*>(p) - dynamic_shared);
}

// ---- CUDA's

struct float4 {
  float x, y, z, w;
} __attribute__((aligned(16)));
static struct {
  unsigned x;
} gridDim;
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float __uint_as_float(unsigned bits) { return float_of_bits(bits); }
static inline unsigned __float_as_uint(float v) { return bits_of_float(v); }
static inline float __int_as_float(int bits) { return float_of_bits(static_cast<unsigned>(bits)); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
static inline void __syncwarp() { walk::pause(); }

// ---- PTX's

static inline float cvt_f32_f16(unsigned short bits) { return float_of_f16(bits); }
static inline unsigned short cvt_f16_f32(float v) { return f16_of_float(v); }
static inline unsigned short cvt_bf16_f32(float v) { return bf16_of_float(v); }
static inline unsigned cvt_f16x2_f32(float high, float low) {
  return f16_of_float(low) | static_cast<unsigned>(f16_of_float(high)) << 16;
}
static inline unsigned cvt_bf16x2_f32(float high, float low) {
  return bf16_of_float(low) | static_cast<unsigned>(bf16_of_float(high)) << 16;
}
static inline unsigned load_global_nc_u16(const void* p) { return *static_cast<const unsigned short*>(p); }
static inline unsigned load_shared_u16(unsigned address) {
  return *reinterpret_cast<const unsigned short*>(dynamic_shared + address);
}
static inline float load_shared_f32(unsigned address) {
  return *reinterpret_cast<const float*>(dynamic_shared + address);
}

static inline void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s: an address is not aligned\n", what);
  std::abort();
}

template <int size>
void cp_async(unsigned to, const void* from, int bytes = size) {
  require(to % size == 0 && reinterpret_cast<std::uintptr_t>(from) % size == 0, "cp_async");
  std::memset(dynamic_shared + to, 0, size);
  std::memcpy(dynamic_shared + to, from, bytes);
}
static inline void cp_async_commit() {}
template <int pending>
void cp_async_wait() {}

namespace walk {
static unsigned put_down[kMostThreads][6];

static void load_matrices(unsigned (&r)[4], unsigned row, bool transposed) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  require(row % 16 == 0, "ldmatrix");
  put_down[threadIdx.x][0] = row;
  pause();
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short two[2];
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned slow = lane / 4, fast = 2 * (lane % 4) + half;
      const unsigned from = put_down[warp + 8 * i + (transposed ? fast : slow)][0];
      std::memcpy(&two[half], dynamic_shared + from + 2 * (transposed ? slow : fast), 2);
    }
    r[i] = two[0] | static_cast<unsigned>(two[1]) << 16;
  }
  pause();
}

template <float (*value)(unsigned short)>
void multiply_matrices(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  for (int i = 0; i < 4; ++i) put_down[threadIdx.x][i] = a[i];
  for (int i = 0; i < 2; ++i) put_down[threadIdx.x][4 + i] = b[i];
  pause();
  const auto element = [&](unsigned of_lane, unsigned word, unsigned half) {
    return value(static_cast<unsigned short>(put_down[warp + of_lane][word] >> (16 * half)));
  };
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (unsigned k = 0; k < 16; ++k) {
      d[e] += element(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2) *
              element(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
    }
  }
  pause();
}

template <class... Parameters, std::size_t... I>
bool call_by_pointers(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block,
                      bool backwards, std::index_sequence<I...>) {
  const auto once = [&] { kernel(*static_cast<std::remove_const_t<Parameters>*>(arguments[I])...); };
  body = [](const void* data) { (*static_cast<const decltype(once)*>(data))(); };
  body_data = &once;
  std::memset(dynamic_shared, 0xff, sizeof dynamic_shared);
  gridDim.x = grid;
  return run(grid, block, backwards);
}
// As a launch has them: pointers to the parameters.
template <class... Parameters>
bool call_by_pointers(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block,
                      bool backwards) {
  return call_by_pointers(kernel, arguments, grid, block, backwards, std::index_sequence_for<Parameters...>());
}
}  // namespace walk

static inline void ldmatrix(unsigned (&r)[4], unsigned row) { walk::load_matrices(r, row, false); }
static inline void ldmatrix_trans(unsigned (&r)[4], unsigned row) { walk::load_matrices(r, row, true); }
static inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  walk::multiply_matrices<float_of_f16>(d, a, b);
}
static inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  walk::multiply_matrices<float_of_bf16>(d, a, b);
}
