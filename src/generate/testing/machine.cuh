// What generated kernels need of a machine, for g++: clusters of blocks one after another, a cluster's threads in turn,
// each until it comes to a barrier, which is all of theirs, or its end. x86-64 only, as Convoy is.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atanh, std::ceil, std::copysign, std::cos,
    std::cosh, std::erf, std::exp, std::expm1, std::floor, std::fmod, std::log, std::log1p, std::pow, std::rint,
    std::sin, std::sinh, std::sqrt, std::tan, std::tanh;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __cluster_dims__(...)

struct uint2 {
  unsigned x, y;
} __attribute__((aligned(8)));
struct uint4 {
  unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct Index {
  unsigned x = 0;
};
static Index threadIdx, blockIdx;

// ---- conversions

static inline float float_of_f16(unsigned short bits) {
  _Float16 v;
  std::memcpy(&v, &bits, sizeof v);
  return static_cast<float>(v);
}
static inline unsigned short f16_of_float(float v) {
  const _Float16 half = static_cast<_Float16>(v);
  unsigned short bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}
static inline float float_of_bits(std::uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
static inline std::uint32_t bits_of_float(float v) {
  std::uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
static inline float float_of_bf16(unsigned short bits) { return float_of_bits(static_cast<std::uint32_t>(bits) << 16); }
static inline unsigned short bf16_of_float(float v) {
  if (v != v) return 0x7fff;
  const std::uint32_t bits = bits_of_float(v);
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float odd_float_of(double v) {
  const float near = static_cast<float>(v);
  if (static_cast<double>(near) == v || v != v) return near;
  const bool beyond = std::fabs(static_cast<double>(near)) > std::fabs(v);
  return float_of_bits((bits_of_float(near) - (beyond ? 1 : 0)) | 1);
}

// ---- threads

namespace walk {

constexpr int kMostShares = 8, kMostThreads = 1024 * kMostShares;
constexpr int kStack = 16 << 10;
alignas(64) static char stacks[kMostThreads][kStack];
static void* threads[kMostThreads];  // stack pointers of those that wait
static void* scheduler;
static unsigned current;  // of the cluster's threads
static int share;         // of its blocks
static bool ended;
static void (*body)(const void*);
static const void* body_data;

// Keeps what a call must keep, and goes on on another stack.
extern "C" void walk_switch(void** from, void* to);
asm(R"(
  .text
  .local walk_switch
  .type walk_switch, @function
walk_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

__attribute__((noinline)) static void pause() { walk_switch(&threads[current], scheduler); }
static void start() {
  body(body_data);
  ended = true;
  pause();
  __builtin_unreachable();
}

// Whether all threads of each cluster came to the same barriers.
static bool run(unsigned grid, unsigned block, bool backwards, unsigned cluster) {
  const unsigned all = cluster * block;
  for (unsigned first = 0; first < grid; first += cluster) {
    for (unsigned t = 0; t < all; ++t) {
      void** top = reinterpret_cast<void**>(stacks[t] + kStack) - 2;  // as a call leaves it: 8 off from 16
      *top = reinterpret_cast<void*>(&start);
      threads[t] = top - 6;
    }
    for (bool done = false; !done;) {
      unsigned at_end = 0;
      for (unsigned i = 0; i < all; ++i) {
        current = backwards ? all - 1 - i : i;
        threadIdx.x = current % block;
        share = static_cast<int>(current / block);
        blockIdx.x = first + current / block;
        ended = false;
        walk_switch(&scheduler, threads[current]);
        at_end += ended ? 1 : 0;
      }
      done = at_end > 0;
      if (done && at_end != all) return false;
    }
  }
  return true;
}

template <class... Parameters, std::size_t... I>
bool call(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block, bool backwards,
          unsigned cluster, std::index_sequence<I...>) {
  const auto once = [&] { kernel((Parameters)(arguments[I])...); };
  body = [](const void* data) { (*static_cast<const decltype(once)*>(data))(); };
  body_data = &once;
  return run(grid, block, backwards, cluster);
}
template <class... Parameters>
bool call(void (*kernel)(Parameters...), void* const* arguments, unsigned grid, unsigned block, bool backwards,
          unsigned cluster) {
  return call(kernel, arguments, grid, block, backwards, cluster, std::index_sequence_for<Parameters...>());
}

template <class... Parameters>
int parameters(void (*)(Parameters...)) {
  return sizeof...(Parameters);
}

}  // namespace walk

static inline void __syncthreads() { walk::pause(); }

// ---- clusters, each block of which has its own of what they share

#define SHARED(type, name, count)                         \
  static type name##_of_shares[walk::kMostShares][count]; \
  type* const name = name##_of_shares[walk::share]
static inline void cluster_sync() { walk::pause(); }
template <int count, class C>
C of_share(const C* p, int share) {
  return p[(share - walk::share) * count];
}

// ---- warps, whose threads meet with the whole block

namespace walk {
static unsigned long long shown[kMostThreads];
template <class T>
T of_thread(T v, unsigned thread) {
  static_assert(sizeof v <= sizeof shown[0], "no such shuffle");
  std::memcpy(&shown[current], &v, sizeof v);
  pause();
  T other;
  std::memcpy(&other, &shown[current - threadIdx.x + thread], sizeof v);
  pause();
  return other;
}
}  // namespace walk
template <class T>
T __shfl_down_sync(unsigned, T v, unsigned by, int width) {
  const unsigned own = threadIdx.x, count = static_cast<unsigned>(width);
  return walk::of_thread(v, own % count + by < count ? own + by : own);
}
template <class T>
T __shfl_sync(unsigned, T v, int lane, int width) {
  const unsigned count = static_cast<unsigned>(width);
  return walk::of_thread(v, threadIdx.x / count * count + static_cast<unsigned>(lane));
}
