// wgmma, the tensor cores of sm_90a: a warpgroup (4 warps, the first one's index a multiple of 4) multiplies a (64 x K,
// from shared memory or registers) with b (K x N, from shared memory) into d (64 x N) in f32; K is 32 bytes of
// elements. Warp w, lane l, with g = l / 4 and t = l % 4, holds of d in d[4j] to d[4j + 3]: rows 16w + g, the same, +
// 8, + 8; columns 8j + 2t, 2t + 1, 2t, 2t + 1. In registers, a is mma_m16n8k16's (tf32: columns t, t, t + 4, t + 4).
//
// Around it: fence_proxy_async() after ordinary stores to the operands; wgmma_fence() before the first and whenever
// registers of d or a were written; wgmma_commit() ends a group; wgmma_wait() before d is read or operands change.
#pragma once

struct f16;
struct bf16;
struct tf32;
struct f8_e4m3;

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most `pending` groups run. d is what will be read: it keeps the compiler from reading it sooner.
template <int pending, int M>
__device__ __forceinline__ void wgmma_wait(float (&d)[M]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
#pragma unroll
  for (int i = 0; i < M; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Behind wgmma_wait(): keeps the compiler from taking the registers of a for anything else before.
template <int M>
__device__ __forceinline__ void wgmma_keep(unsigned (&a)[M][4]) {
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(a[i][j])::"memory");
  }
}

// Where an operand lies in shared memory, in core matrices of 8 rows of 16 bytes (its contiguous direction), or
// swizzled in rows of 32, 64 or 128 bytes as TMA writes them, 8 rows together.
//   K contiguous     stride_bytes: from 8 rows to the next 8; leading_bytes: from 16 bytes to the next along K, not
//   used
//                    where swizzled
//   K not contiguous (trans, 16-bit types only): swizzled 128: stride_bytes from 8 rows along K to the next 8,
//                    leading_bytes from 64 elements to the next
template <int swizzle_bytes>
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, int leading_bytes, int stride_bytes) {
  static_assert(swizzle_bytes == 0 || swizzle_bytes == 32 || swizzle_bytes == 64 || swizzle_bytes == 128,
                "no such mode");
  constexpr unsigned long long mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return (address & 0x3ffffull) >> 4 | static_cast<unsigned long long>(leading_bytes >> 4) << 16 |
         static_cast<unsigned long long>(stride_bytes >> 4) << 32 | mode << 62;
}

// The instructions for one type of element and one N.
template <class T, int N>
struct Wgmma;

// d = a * b, + d where `accumulate`. N is twice the elements of d.
template <class T, bool trans_a = false, bool trans_b = false, int M>
__device__ __forceinline__ void wgmma(float (&d)[M], unsigned long long a, unsigned long long b, bool accumulate) {
  Wgmma<T, 2 * M>::template run<trans_a, trans_b>(d, a, b, accumulate);
}
template <class T, bool trans_b = false, int M>
__device__ __forceinline__ void wgmma(float (&d)[M], const unsigned (&a)[4], unsigned long long b, bool accumulate) {
  Wgmma<T, 2 * M>::template run<trans_b>(d, a, b, accumulate);
}

// Numbers of the registers of d, in their places in the instruction and among the operands.
#define CONVOY_REGISTERS_0 "%0, %1, %2, %3"
#define CONVOY_REGISTERS_4 "%4, %5, %6, %7"
#define CONVOY_REGISTERS_8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define CONVOY_REGISTERS_16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define CONVOY_REGISTERS_24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define CONVOY_REGISTERS_32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define CONVOY_REGISTERS_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define CONVOY_REGISTERS_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define CONVOY_REGISTERS_56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define CONVOY_REGISTERS_64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define CONVOY_REGISTERS_72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define CONVOY_REGISTERS_80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define CONVOY_REGISTERS_88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define CONVOY_REGISTERS_96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define CONVOY_REGISTERS_104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define CONVOY_REGISTERS_112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define CONVOY_REGISTERS_120 "%120, %121, %122, %123, %124, %125, %126, %127"
// The first n of them.
#define CONVOY_UP_TO_4 CONVOY_REGISTERS_0
#define CONVOY_UP_TO_8 CONVOY_UP_TO_4 ", " CONVOY_REGISTERS_4
#define CONVOY_UP_TO_16 CONVOY_UP_TO_8 ", " CONVOY_REGISTERS_8
#define CONVOY_UP_TO_24 CONVOY_UP_TO_16 ", " CONVOY_REGISTERS_16
#define CONVOY_UP_TO_32 CONVOY_UP_TO_24 ", " CONVOY_REGISTERS_24
#define CONVOY_UP_TO_40 CONVOY_UP_TO_32 ", " CONVOY_REGISTERS_32
#define CONVOY_UP_TO_48 CONVOY_UP_TO_40 ", " CONVOY_REGISTERS_40
#define CONVOY_UP_TO_56 CONVOY_UP_TO_48 ", " CONVOY_REGISTERS_48
#define CONVOY_UP_TO_64 CONVOY_UP_TO_56 ", " CONVOY_REGISTERS_56
#define CONVOY_UP_TO_72 CONVOY_UP_TO_64 ", " CONVOY_REGISTERS_64
#define CONVOY_UP_TO_80 CONVOY_UP_TO_72 ", " CONVOY_REGISTERS_72
#define CONVOY_UP_TO_88 CONVOY_UP_TO_80 ", " CONVOY_REGISTERS_80
#define CONVOY_UP_TO_96 CONVOY_UP_TO_88 ", " CONVOY_REGISTERS_88
#define CONVOY_UP_TO_104 CONVOY_UP_TO_96 ", " CONVOY_REGISTERS_96
#define CONVOY_UP_TO_112 CONVOY_UP_TO_104 ", " CONVOY_REGISTERS_104
#define CONVOY_UP_TO_120 CONVOY_UP_TO_112 ", " CONVOY_REGISTERS_112
#define CONVOY_UP_TO_128 CONVOY_UP_TO_120 ", " CONVOY_REGISTERS_120
#define CONVOY_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CONVOY_D8(i) CONVOY_D4(i), CONVOY_D4(i + 4)
#define CONVOY_D16(i) CONVOY_D8(i), CONVOY_D8(i + 8)
#define CONVOY_D32(i) CONVOY_D16(i), CONVOY_D16(i + 16)

// SHAPE: "m64n64k"; D: the text of d's registers; p0 to p6: the numbers after them; the rest: d as operands.
#define CONVOY_WGMMA_TEXT(SHAPE, K, TYPE, D, a, b, p, trans)                                                       \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " p ", 0;\nwgmma.mma_async.sync.aligned." SHAPE K ".f32." TYPE "." TYPE " {" D \
  "}, " a ", " b ", p, 1, 1" trans ";\n}"
#define CONVOY_WGMMA_16(N, T, TYPE, D, p0, p1, p2, p3, p4, p5, p6, ...)                                              \
  template <>                                                                                                        \
  struct Wgmma<T, N> {                                                                                               \
    template <bool trans_a, bool trans_b>                                                                            \
    static __device__ __forceinline__ void run(float (&d)[N / 2], unsigned long long a, unsigned long long b,        \
                                               bool accumulate) {                                                    \
      asm volatile(CONVOY_WGMMA_TEXT("m64n" #N, "k16", TYPE, D, p0, p1, p2, ", " p3 ", " p4)                         \
                   : __VA_ARGS__                                                                                     \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(int{trans_a}), "n"(int{trans_b}));       \
    }                                                                                                                \
    template <bool trans_b>                                                                                          \
    static __device__ __forceinline__ void run(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,      \
                                               bool accumulate) {                                                    \
      asm volatile(CONVOY_WGMMA_TEXT("m64n" #N, "k16", TYPE, D, "{" p0 ", " p1 ", " p2 ", " p3 "}", p4, p5, ", " p6) \
                   : __VA_ARGS__                                                                                     \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),          \
                     "n"(int{trans_b}));                                                                             \
    }                                                                                                                \
  };
#define CONVOY_WGMMA_K(N, T, TYPE, K, D, p0, p1, p2, p3, p4, p5, p6, ...)                                       \
  template <>                                                                                                   \
  struct Wgmma<T, N> {                                                                                          \
    template <bool trans_a, bool trans_b>                                                                       \
    static __device__ __forceinline__ void run(float (&d)[N / 2], unsigned long long a, unsigned long long b,   \
                                               bool accumulate) {                                               \
      static_assert(!trans_a && !trans_b, "K is contiguous in both operands of this type");                     \
      asm volatile(CONVOY_WGMMA_TEXT("m64n" #N, K, TYPE, D, p0, p1, p2, "")                                     \
                   : __VA_ARGS__                                                                                \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                        \
    }                                                                                                           \
    template <bool trans_b>                                                                                     \
    static __device__ __forceinline__ void run(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, \
                                               bool accumulate) {                                               \
      static_assert(!trans_b, "K is contiguous in both operands of this type");                                 \
      asm volatile(CONVOY_WGMMA_TEXT("m64n" #N, K, TYPE, D, "{" p0 ", " p1 ", " p2 ", " p3 "}", p4, p5, "")     \
                   : __VA_ARGS__                                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));    \
    }                                                                                                           \
  };
#define CONVOY_WGMMA(N, ...)                         \
  CONVOY_WGMMA_16(N, f16, "f16", __VA_ARGS__)        \
  CONVOY_WGMMA_16(N, bf16, "bf16", __VA_ARGS__)      \
  CONVOY_WGMMA_K(N, tf32, "tf32", "k8", __VA_ARGS__) \
  CONVOY_WGMMA_K(N, f8_e4m3, "e4m3", "k32", __VA_ARGS__)

// Those of one N alone where the kernel defines it before: all of them take the compiler longer than a kernel does.
#ifndef WGMMA_N
#define WGMMA_N 0
#endif
#if WGMMA_N == 0 || WGMMA_N == 8
CONVOY_WGMMA(8, CONVOY_UP_TO_4, "%4", "%5", "%6", "%7", "%8", "%9", "%10", CONVOY_D4(0))
#endif
#if WGMMA_N == 0 || WGMMA_N == 16
CONVOY_WGMMA(16, CONVOY_UP_TO_8, "%8", "%9", "%10", "%11", "%12", "%13", "%14", CONVOY_D8(0))
#endif
#if WGMMA_N == 0 || WGMMA_N == 32
CONVOY_WGMMA(32, CONVOY_UP_TO_16, "%16", "%17", "%18", "%19", "%20", "%21", "%22", CONVOY_D16(0))
#endif
#if WGMMA_N == 0 || WGMMA_N == 48
CONVOY_WGMMA(48, CONVOY_UP_TO_24, "%24", "%25", "%26", "%27", "%28", "%29", "%30", CONVOY_D16(0), CONVOY_D8(16))
#endif
#if WGMMA_N == 0 || WGMMA_N == 64
CONVOY_WGMMA(64, CONVOY_UP_TO_32, "%32", "%33", "%34", "%35", "%36", "%37", "%38", CONVOY_D32(0))
#endif
#if WGMMA_N == 0 || WGMMA_N == 80
CONVOY_WGMMA(80, CONVOY_UP_TO_40, "%40", "%41", "%42", "%43", "%44", "%45", "%46", CONVOY_D32(0), CONVOY_D8(32))
#endif
#if WGMMA_N == 0 || WGMMA_N == 96
CONVOY_WGMMA(96, CONVOY_UP_TO_48, "%48", "%49", "%50", "%51", "%52", "%53", "%54", CONVOY_D32(0), CONVOY_D16(32))
#endif
#if WGMMA_N == 0 || WGMMA_N == 112
CONVOY_WGMMA(112, CONVOY_UP_TO_56, "%56", "%57", "%58", "%59", "%60", "%61", "%62", CONVOY_D32(0), CONVOY_D16(32),
             CONVOY_D8(48))
#endif
#if WGMMA_N == 0 || WGMMA_N == 128
CONVOY_WGMMA(128, CONVOY_UP_TO_64, "%64", "%65", "%66", "%67", "%68", "%69", "%70", CONVOY_D32(0), CONVOY_D32(32))
#endif
#if WGMMA_N == 0 || WGMMA_N == 144
CONVOY_WGMMA(144, CONVOY_UP_TO_72, "%72", "%73", "%74", "%75", "%76", "%77", "%78", CONVOY_D32(0), CONVOY_D32(32),
             CONVOY_D8(64))
#endif
#if WGMMA_N == 0 || WGMMA_N == 160
CONVOY_WGMMA(160, CONVOY_UP_TO_80, "%80", "%81", "%82", "%83", "%84", "%85", "%86", CONVOY_D32(0), CONVOY_D32(32),
             CONVOY_D16(64))
#endif
#if WGMMA_N == 0 || WGMMA_N == 192
CONVOY_WGMMA(192, CONVOY_UP_TO_96, "%96", "%97", "%98", "%99", "%100", "%101", "%102", CONVOY_D32(0), CONVOY_D32(32),
             CONVOY_D32(64))
#endif
#if WGMMA_N == 0 || WGMMA_N == 224
CONVOY_WGMMA(224, CONVOY_UP_TO_112, "%112", "%113", "%114", "%115", "%116", "%117", "%118", CONVOY_D32(0),
             CONVOY_D32(32), CONVOY_D32(64), CONVOY_D16(96))
#endif
#if WGMMA_N == 0 || WGMMA_N == 240
CONVOY_WGMMA(240, CONVOY_UP_TO_120, "%120", "%121", "%122", "%123", "%124", "%125", "%126", CONVOY_D32(0),
             CONVOY_D32(32), CONVOY_D32(64), CONVOY_D16(96), CONVOY_D8(112))
#endif
#if WGMMA_N == 0 || WGMMA_N == 256
CONVOY_WGMMA(256, CONVOY_UP_TO_128, "%128", "%129", "%130", "%131", "%132", "%133", "%134", CONVOY_D32(0),
             CONVOY_D32(32), CONVOY_D32(64), CONVOY_D32(96))
#endif

#undef CONVOY_REGISTERS_0
#undef CONVOY_REGISTERS_4
#undef CONVOY_REGISTERS_8
#undef CONVOY_REGISTERS_16
#undef CONVOY_REGISTERS_24
#undef CONVOY_REGISTERS_32
#undef CONVOY_REGISTERS_40
#undef CONVOY_REGISTERS_48
#undef CONVOY_REGISTERS_56
#undef CONVOY_REGISTERS_64
#undef CONVOY_REGISTERS_72
#undef CONVOY_REGISTERS_80
#undef CONVOY_REGISTERS_88
#undef CONVOY_REGISTERS_96
#undef CONVOY_REGISTERS_104
#undef CONVOY_REGISTERS_112
#undef CONVOY_REGISTERS_120
#undef CONVOY_UP_TO_4
#undef CONVOY_UP_TO_8
#undef CONVOY_UP_TO_16
#undef CONVOY_UP_TO_24
#undef CONVOY_UP_TO_32
#undef CONVOY_UP_TO_40
#undef CONVOY_UP_TO_48
#undef CONVOY_UP_TO_56
#undef CONVOY_UP_TO_64
#undef CONVOY_UP_TO_72
#undef CONVOY_UP_TO_80
#undef CONVOY_UP_TO_88
#undef CONVOY_UP_TO_96
#undef CONVOY_UP_TO_104
#undef CONVOY_UP_TO_112
#undef CONVOY_UP_TO_120
#undef CONVOY_UP_TO_128
#undef CONVOY_D4
#undef CONVOY_D8
#undef CONVOY_D16
#undef CONVOY_D32
#undef CONVOY_WGMMA_TEXT
#undef CONVOY_WGMMA_16
#undef CONVOY_WGMMA_K
#undef CONVOY_WGMMA
#undef WGMMA_N
