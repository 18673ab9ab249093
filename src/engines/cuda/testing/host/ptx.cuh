// What ptx.cuh has, for g++, as far as kernels that are walked use it: blocks one after another, a block's threads in
// turn (generate/testing/machine.cuh). What a warp does together its lanes put down, then all take their part.
// Addresses of shared memory count from the beginning of a block's.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "machine.cuh"

#define Index KernelIndex  // axis.cuh's
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __host__

alignas(1024) static char dynamic_shared[232448];

static inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const char*>(p) - dynamic_shared);
}

// ---- CUDA's

struct float4 {
  float x, y, z, w;
} __attribute__((aligned(16)));
static struct { unsigned x; } gridDim;
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
using std::isinf, std::isnan, std::max, std::min;
static inline long long __double_as_longlong(double v) {
  long long bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
static inline double __longlong_as_double(long long bits) {
  double v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
static inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  return sum;
}
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float __uint_as_float(unsigned bits) { return float_of_bits(bits); }
static inline unsigned __float_as_uint(float v) { return bits_of_float(v); }
static inline float __int_as_float(int bits) { return float_of_bits(static_cast<unsigned>(bits)); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
namespace walk {
// Of which threads the one that waits is one: the block's, or its warp's.
static bool waits_for_warp[kMostThreads];
static inline void pause_warp() {
  waits_for_warp[threadIdx.x] = true;
  pause();
}

// As run(), but that a warp goes on when all of its threads have come to where it waits. False: they have not.
static bool run_warps(unsigned grid, unsigned block, bool backwards) {
  static bool done[kMostThreads];
  const auto resume = [](unsigned t) {
    threadIdx.x = current = t;
    waits_for_warp[t] = ended = false;
    walk_switch(&scheduler, threads[t]);
    done[t] = ended;
  };
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    for (unsigned t = 0; t < block; ++t) {
      void** top = reinterpret_cast<void**>(stacks[t] + kStack) - 2;  // as a call leaves it: 8 off from 16
      *top = reinterpret_cast<void*>(&start);
      threads[t] = top - 6;
      done[t] = false;
    }
    for (unsigned left = block; left > 0;) {
      const unsigned warps = (block + 31) / 32;
      for (unsigned i = 0; i < warps; ++i) {
        const unsigned first = 32 * (backwards ? warps - 1 - i : i), count = block - first < 32 ? block - first : 32;
        for (unsigned again = count; again > 0;) {
          for (unsigned k = 0; k < count; ++k) resume(first + (backwards ? count - 1 - k : k));
          again = 0;
          for (unsigned k = 0; k < count; ++k) again += waits_for_warp[first + k] ? 1 : 0;
          if (again != 0 && again != count) return false;
        }
      }
      left = 0;
      for (unsigned t = 0; t < block; ++t) left += done[t] ? 0 : 1;
      if (left != 0 && left != block) return false;
    }
  }
  return true;
}
}  // namespace walk
static inline void __syncwarp() { walk::pause_warp(); }
static inline int __syncthreads_or(int value) {
  static int any;
  __syncthreads();
  any = 0;
  __syncthreads();
  any |= value;
  __syncthreads();
  return any;
}

// ---- PTX's

static inline float ex2_approx_ftz(float v) { return std::exp2(v); }
static inline float rcp_approx_ftz(float v) { return 1.0f / v; }
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

template <class T>
void load_shared(T& v, unsigned address) {
  std::memcpy(&v, dynamic_shared + address, sizeof v);
}
static inline void store_shared(unsigned address, unsigned v) { std::memcpy(dynamic_shared + address, &v, sizeof v); }
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned places) {
  const std::uint64_t both = low | static_cast<std::uint64_t>(high) << 32;
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) made |= (both >> (8 * (places >> (4 * i) & 7)) & 0xff) << (8 * i);
  return made;
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
#define CP_ASYNC_16(to, from, bytes) cp_async<16>(to, from, bytes)
static inline void cp_async_commit() {}
static inline void fence_proxy_async() {}  // everything is there at once
template <int pending>
void cp_async_wait() {}

// From sm_90 on: kernels are walked as on sm_80, where nothing of it is called.
template <class... Any>
void no_copy_engine(Any...) {
  require(false, "the copy engine isn't walked");
}
#define mbarrier_init no_copy_engine
#define mbarrier_inval no_copy_engine
#define mbarrier_wait no_copy_engine
#define mbarrier_arrive_expect_tx no_copy_engine
#define fence_mbarrier_init no_copy_engine
#define cp_async_bulk no_copy_engine
#define cp_async_bulk_store no_copy_engine
#define cp_async_bulk_commit no_copy_engine
template <int pending>
void cp_async_bulk_wait_read() {
  no_copy_engine();
}
static inline void cp_async_bulk_wait() { no_copy_engine(); }

namespace walk {
static unsigned put_down[kMostThreads][6];

template <unsigned count>
void load_matrices(unsigned (&r)[count], unsigned row, bool transposed) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  require(row % 16 == 0, "ldmatrix");
  put_down[threadIdx.x][0] = row;
  pause_warp();
  for (unsigned i = 0; i < count; ++i) {
    unsigned short two[2];
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned slow = lane / 4, fast = 2 * (lane % 4) + half;
      const unsigned from = put_down[warp + 8 * i + (transposed ? fast : slow)][0];
      std::memcpy(&two[half], dynamic_shared + from + 2 * (transposed ? slow : fast), 2);
    }
    r[i] = two[0] | static_cast<unsigned>(two[1]) << 16;
  }
  pause_warp();
}

template <float (*value)(unsigned short)>
void multiply_matrices(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  for (int i = 0; i < 4; ++i) put_down[threadIdx.x][i] = a[i];
  for (int i = 0; i < 2; ++i) put_down[threadIdx.x][4 + i] = b[i];
  pause_warp();
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
  pause_warp();
}

// Of 8 terms of tf32, which are floats whose last bits don't count.
static inline void multiply_floats(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  for (int i = 0; i < 4; ++i) put_down[threadIdx.x][i] = a[i];
  for (int i = 0; i < 2; ++i) put_down[threadIdx.x][4 + i] = b[i];
  pause_warp();
  const auto element = [&](unsigned of_lane, unsigned word) {
    return __uint_as_float(put_down[warp + of_lane][word] & 0xffffe000u);
  };
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (unsigned k = 0; k < 8; ++k) {
      d[e] += element(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2) * element(column * 4 + k % 4, 4 + k / 4);
    }
  }
  pause_warp();
}

template <class... Parameters, std::size_t... I>
bool call_by_pointers(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block,
                      bool backwards, std::index_sequence<I...>) {
  const auto once = [&] { kernel(*static_cast<std::remove_const_t<Parameters>*>(arguments[I])...); };
  body = [](const void* data) { (*static_cast<const decltype(once)*>(data))(); };
  body_data = &once;
  std::memset(dynamic_shared, 0xff, sizeof dynamic_shared);
  gridDim.x = grid;
  return run_warps(grid, block, backwards);
}
// As a launch has them: pointers to the parameters.
template <class... Parameters>
bool call_by_pointers(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block,
                      bool backwards) {
  return call_by_pointers(kernel, arguments, grid, block, backwards, std::index_sequence_for<Parameters...>());
}
}  // namespace walk

static inline int __ffs(unsigned v) { return __builtin_ffs(static_cast<int>(v)); }
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  std::memcpy(walk::put_down[threadIdx.x], &v, sizeof v);
  walk::pause_warp();
  T other;
  std::memcpy(&other, walk::put_down[threadIdx.x ^ static_cast<unsigned>(mask)], sizeof v);
  walk::pause_warp();
  return other;
}
static inline unsigned __ballot_sync(unsigned, int value) {
  walk::put_down[threadIdx.x][0] = value != 0 ? 1 : 0;
  walk::pause_warp();
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= walk::put_down[threadIdx.x / 32 * 32 + lane][0] << lane;
  walk::pause_warp();
  return votes;
}
template <unsigned count>
void ldmatrix(unsigned (&r)[count], unsigned row) {
  walk::load_matrices(r, row, false);
}
template <unsigned count>
void ldmatrix_trans(unsigned (&r)[count], unsigned row) {
  walk::load_matrices(r, row, true);
}
static inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  walk::multiply_matrices<float_of_f16>(d, a, b);
}
static inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  walk::multiply_matrices<float_of_bf16>(d, a, b);
}static inline void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  walk::multiply_floats(d, a, b);
}
