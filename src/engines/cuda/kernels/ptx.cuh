// The PTX instructions that CUDA C++ has no word for, a function each, named as in the PTX manual ("PTX ISA", NVIDIA);
// wgmma.cuh has the longest. NVRTC compiles it alone: it needs no header of CUDA's, and what a kernel doesn't use makes
// no code. From sm_80 on, unless a section says more. Addresses of shared memory are 32 bits wide: shared_address().
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// --- Conversions of 16-bit floats, which are their bits; to nearest, ties to even.

__device__ __forceinline__ float cvt_f32_f16(unsigned short bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
__device__ __forceinline__ unsigned short cvt_f16_f32(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ unsigned short cvt_bf16_f32(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ unsigned cvt_f16x2_f32(float high, float low) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ unsigned cvt_bf16x2_f32(float high, float low) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// --- Products of the 16-bit floats in two words, to nearest even; of bf16 from sm_90 on.

__device__ __forceinline__ unsigned mul_f16x2(unsigned a, unsigned b) {
  unsigned product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
__device__ __forceinline__ unsigned mul_bf16x2(unsigned a, unsigned b) {
  unsigned product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// --- 2^v and 1 / v in one instruction each, to some 2^-22 of the value; what is subnormal counts as 0.

__device__ __forceinline__ float ex2_approx_ftz(float v) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
}
__device__ __forceinline__ float rcp_approx_ftz(float v) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(v));
  return reciprocal;
}

// --- Loads and stores. A 16-bit load into a 32-bit register saves the conversion that the compiler adds to a short.

__device__ __forceinline__ unsigned load_global_nc_u16(const void* p) {
  unsigned v;
  asm("ld.global.nc.u16 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ unsigned load_shared_u16(unsigned address) {
  unsigned v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}
__device__ __forceinline__ float load_shared_f32(unsigned address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
  return v;
}
__device__ __forceinline__ void load_shared(unsigned& v, unsigned address) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
}
__device__ __forceinline__ void load_shared(uint2& v, unsigned address) {
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
}
__device__ __forceinline__ void load_shared(uint4& v, unsigned address) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
}
__device__ __forceinline__ void store_shared(unsigned address, unsigned v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

// How long the L2 cache is to keep what an access touches: policies for the accesses that take one, TMA's too.
__device__ __forceinline__ unsigned long long l2_evict_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ unsigned long long l2_evict_last() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint4 load_global_nc(const uint4* p, unsigned long long policy) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p), "l"(policy));
  return v;
}
__device__ __forceinline__ void store_global(uint4* p, uint4 v, unsigned long long policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w), "l"(policy)
               : "memory");
}

// --- cp.async: copies into shared memory that the thread doesn't wait for. The first `bytes` of `size` are copied, the
// others become zero; both addresses are multiples of `size`, which is 4, 8 or 16.

// Of 16, as a statement: from a function the compiler has the addresses in another order.
#define CP_ASYNC_16(to, from, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory")
template <int size>
__device__ __forceinline__ void cp_async(unsigned to, const void* from, int bytes = size) {
  if constexpr (size == 16) {  // 16 bytes can leave the first cache alone
    CP_ASYNC_16(to, from, bytes);
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(bytes), "n"(size)
                 : "memory");
  }
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// --- Tensor cores, a warp at a time: d = a * b + d in f32. Lane l holds, with g = l / 4 and t = l % 4, two elements a
// register of the 16-bit types, one of tf32:
//   a (16 x K)  rows g, g + 8, g, g + 8; columns 2t, 2t, 2t + 8, 2t + 8   (tf32: t, t, t + 4, t + 4)
//   b (K x 8)   column g; rows 2t, 2t + 8                                 (tf32: t, t + 4)
//   d (16 x 8)  rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1

__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Rounded to nearest, ties away from zero. Tensor cores only drop bits.
__device__ __forceinline__ unsigned to_tf32(float v) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}

// Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and gets in r[i] the
// elements of row l / 4, columns 2(l % 4) and the next, of matrix i; transposed: of column l / 4, those rows. The 1 and
// 2 matrix forms read the addresses of the first 8 and 16 lanes.
__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void ldmatrix(unsigned (&r)[2], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void ldmatrix(unsigned (&r)[1], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(unsigned (&r)[2], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}
// The way back, as ldmatrix: from sm_90 on.
__device__ __forceinline__ void stmatrix(unsigned row, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// --- Barriers in shared memory, 8 bytes each. A phase ends when all arrivals and all announced bytes have come; phases
// alternate in parity, the first has 0. From sm_90 on, as all that follows.

__device__ __forceinline__ void mbarrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void mbarrier_inval(unsigned barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}
// Arrives and announces bytes that copies will bring.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, int bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}
// At the barrier of another block of the cluster: mapa() gives its address.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned cluster_barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_barrier) : "memory");
}
// Whether the phase of this parity is over; the hardware may wait a while before it says no.
__device__ __forceinline__ bool mbarrier_try_wait(unsigned barrier, int parity) {
  unsigned done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, int parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// Makes initialised barriers known to the cluster and to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Orders this thread's stores to shared memory before what the copy engine or wgmma reads there.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- Clusters.

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// An address of shared memory as it is in the block of this rank.
__device__ __forceinline__ unsigned mapa(unsigned address, unsigned rank) {
  unsigned mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
// At an address that mapa() gives.
__device__ __forceinline__ void store_shared_cluster(unsigned mapped, float2 v) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(mapped), "f"(v.x), "f"(v.y) : "memory");
}

// --- Bulk copies (TMA). Shared memory is aligned to 128 bytes, in the swizzled modes to 1024 (256 rows of 4). `map` is
// a CUtensorMap (device/cuda/tensor_map.h) in constant memory: a const __grid_constant__ parameter. Coordinates are in
// elements, innermost first, and may lie outside of the tensor, where zeros are read; the innermost one is a multiple
// of 16 bytes (others end the kernel with CUDA_ERROR_ILLEGAL_INSTRUCTION). One thread asks; `barrier` gets the bytes.

__device__ __forceinline__ void cp_async_bulk(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_store(void* to, unsigned from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
// Elements outside of the tensor are not written.
__device__ __forceinline__ void tma_store(const void* map, unsigned from, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(c0), "r"(c1)
               : "memory");
}
__device__ __forceinline__ void tma_store(const void* map, unsigned from, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#define CONVOY_TMA_LOAD(form) "cp.async.bulk.tensor." form ".mbarrier::complete_tx::bytes [%0], [%1, "
__device__ __forceinline__ void tma_load(unsigned to, const void* map, unsigned barrier, int c0, int c1) {
  asm volatile(CONVOY_TMA_LOAD("2d.shared::cluster.global.tile") "{%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(barrier),
               "r"(c0), "r"(c1)
               : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const void* map, unsigned barrier, int c0, int c1, int c2) {
  asm volatile(CONVOY_TMA_LOAD("3d.shared::cluster.global.tile") "{%3, %4, %5}], [%2];" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const void* map, unsigned barrier, int c0, int c1, int c2,
                                         int c3) {
  asm volatile(CONVOY_TMA_LOAD("4d.shared::cluster.global.tile") "{%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const void* map, unsigned barrier, int c0, int c1, int c2, int c3,
                                         int c4) {
  asm volatile(CONVOY_TMA_LOAD("5d.shared::cluster.global.tile") "{%3, %4, %5, %6, %7}], [%2];" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
// To the blocks of the cluster whose bits `blocks` has, at the same addresses, each barrier getting its bytes.
__device__ __forceinline__ void tma_load_multicast(unsigned to, const void* map, unsigned barrier,
                                                   unsigned short blocks, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "h"(blocks)
      : "memory");
}

// im2col: a map made by cuTensorMapEncodeIm2col of a channels-last tensor, its box running over pixels from the base
// (c, w, h, n) through the filter's tap at the offsets.
__device__ __forceinline__ void tma_load_im2col(unsigned to, const void* map, unsigned barrier, int c, int w, int n,
                                                unsigned short tap_w) {
  asm volatile(CONVOY_TMA_LOAD("3d.shared::cluster.global.im2col") "{%3, %4, %5}], [%2], {%6};" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c), "r"(w), "r"(n), "h"(tap_w)
               : "memory");
}
__device__ __forceinline__ void tma_load_im2col(unsigned to, const void* map, unsigned barrier, int c, int w, int h,
                                                int n, unsigned short tap_w, unsigned short tap_h) {
  asm volatile(CONVOY_TMA_LOAD("4d.shared::cluster.global.im2col") "{%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
               "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h)
               : "memory");
}
__device__ __forceinline__ void tma_load_im2col(unsigned to, const void* map, unsigned barrier, int c, int w, int h,
                                                int d, int n, unsigned short tap_w, unsigned short tap_h,
                                                unsigned short tap_d) {
  asm volatile(
      CONVOY_TMA_LOAD("5d.shared::cluster.global.im2col") "{%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(tap_w), "h"(tap_h), "h"(tap_d)
      : "memory");
}
#undef CONVOY_TMA_LOAD

__device__ __forceinline__ void cp_async_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most `pending` groups of stores still read shared memory; _wait: until they are written.
template <int pending>
__device__ __forceinline__ void cp_async_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
template <int pending>
__device__ __forceinline__ void cp_async_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

// --- Registers of a warpgroup, a multiple of 8: sm_90a, and only in kernels with a register bound at entry.

template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
