// A kernel for each group of ptx.cuh's wrappers, as plain as can be: ptx_test.cc knows what each has to give.
#include "problem.h"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace {

// Bytes from and to shared memory by ordinary accesses, by all threads of the block.
__device__ void copy_bytes(void* to, const void* from, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
}

__device__ bool first_thread() { return threadIdx.x == 0 && threadIdx.y == 0; }

}  // namespace

// out = in, in three ways: through policies, 16 bits at a time, and as floats.
extern "C" __global__ void accesses(const uint4* in, uint4* out) {
  __shared__ uint4 shared[32];
  const int i = threadIdx.x;
  const uint4 v = load_global_nc(in + i, l2_evict_first());
  const unsigned own = shared_address(shared + i), words_of_v[4] = {v.x, v.y, v.z, v.w};
  for (int k = 0; k < 4; ++k) store_shared(own + 4 * k, words_of_v[k]);
  uint4 all;
  uint2 two;
  unsigned one;
  load_shared(all, own);
  load_shared(two, own);
  load_shared(one, own + 12);
  store_global(out + i, make_uint4(two.x, two.y, all.z, one), l2_evict_last());
  __syncwarp();
  auto* halves = reinterpret_cast<unsigned short*>(out + 32);
  auto* words = reinterpret_cast<float*>(out + 64);
  auto* read = reinterpret_cast<unsigned*>(out + 96);
  for (int k = i; k < 256; k += 32) {
    halves[k] = static_cast<unsigned short>(load_shared_u16(shared_address(shared) + 2 * k));
    read[k] = load_global_nc_u16(reinterpret_cast<const unsigned short*>(in) + k);
  }
  for (int k = i; k < 128; k += 32) words[k] = load_shared_f32(shared_address(shared) + 4 * k);
}

// out[i] = 2^in[i] and, behind them, 1 / in[i].
extern "C" __global__ void powers_and_reciprocals(const float* in, float* out) {
  out[threadIdx.x] = ex2_approx_ftz(in[threadIdx.x]);
  out[blockDim.x + threadIdx.x] = rcp_approx_ftz(in[threadIdx.x]);
}

// Thread i copies i % 17, i % 9 and i % 5 bytes of its 16, 8 and 4.
extern "C" __global__ void copies(const char* in, char* out) {
  __shared__ __align__(16) char shared[32 * 28];
  const int i = threadIdx.x;
  const unsigned base = shared_address(shared);
  cp_async<16>(base + 16 * i, in + 16 * i, i % 17);
  cp_async_commit();
  cp_async<8>(base + 512 + 8 * i, in + 512 + 8 * i, i % 9);
  cp_async<4>(base + 768 + 4 * i, in + 768 + 4 * i, i % 5);
  cp_async_commit();
  cp_async_wait<1>();
  cp_async_wait<0>();
  __syncwarp();
  copy_bytes(out, shared, sizeof shared);
}

// d (16 x 8) = a (16 x 16) * b (16 x 8), row by row in memory: fragments loaded one by one, then by ldmatrix.
template <bool bf16_elements>
__device__ void multiply_16_bit(const unsigned short* a, const unsigned short* b, float* d) {
  __shared__ __align__(16) unsigned short shared[16 * 16 + 16 * 8];
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const auto pair = [](unsigned short low, unsigned short high) { return low | static_cast<unsigned>(high) << 16; };
  const auto a_pair = [&](int row, int column) { return pair(a[row * 16 + column], a[row * 16 + column + 1]); };
  const auto b_pair = [&](int row, int column) { return pair(b[row * 8 + column], b[(row + 1) * 8 + column]); };
  unsigned fa[4] = {a_pair(g, 2 * t), a_pair(g + 8, 2 * t), a_pair(g, 2 * t + 8), a_pair(g + 8, 2 * t + 8)};
  unsigned fb[2] = {b_pair(2 * t, g), b_pair(2 * t + 8, g)};
  const auto store = [&](float* to) {
    float sum[4] = {1, 1, 1, 1};
    if constexpr (bf16_elements) {
      mma_m16n8k16_bf16(sum, fa, fb);
    } else {
      mma_m16n8k16_f16(sum, fa, fb);
    }
    for (int i = 0; i < 4; ++i) to[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
  };
  store(d);
  copy_bytes(shared, a, 512);
  copy_bytes(shared + 256, b, 256);
  __syncwarp();
  const unsigned base = shared_address(shared);
  ldmatrix(fa, base + 2 * (lane % 16 * 16 + lane / 16 * 8));
  ldmatrix_trans(fb, base + 512 + 2 * (lane % 16 * 8));
  store(d + 128);
}
extern "C" __global__ void mma_f16(const unsigned short* a, const unsigned short* b, float* d) {
  multiply_16_bit<false>(a, b, d);
}
extern "C" __global__ void mma_bf16(const unsigned short* a, const unsigned short* b, float* d) {
  multiply_16_bit<true>(a, b, d);
}

// d (16 x 8) = a (16 x 8) * b (8 x 8); then a rounded.
extern "C" __global__ void mma_tf32(const float* a, const float* b, float* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const unsigned fa[4] = {to_tf32(a[g * 8 + t]), to_tf32(a[(g + 8) * 8 + t]), to_tf32(a[g * 8 + t + 4]),
                          to_tf32(a[(g + 8) * 8 + t + 4])};
  const unsigned fb[2] = {to_tf32(b[t * 8 + g]), to_tf32(b[(t + 4) * 8 + g])};
  float sum[4] = {1, 1, 1, 1};
  mma_m16n8k8_tf32(sum, fa, fb);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
  for (int i = threadIdx.x; i < 128; i += 32) d[128 + i] = __uint_as_float(to_tf32(a[i]));
}

// Four 8 x 8 matrices of 16 bits, one after the other: the registers of lane l, in the order of the forms.
extern "C" __global__ void ldmatrix_forms(const unsigned short* in, unsigned* out) {
  __shared__ __align__(16) unsigned short shared[256];
  copy_bytes(shared, in, 512);
  __syncwarp();
  const int lane = threadIdx.x;
  const unsigned row = shared_address(shared) + 16 * lane;
  unsigned one[1], two[2], four[4], two_trans[2], four_trans[4];
  ldmatrix(one, row);
  ldmatrix(two, row);
  ldmatrix(four, row);
  ldmatrix_trans(two_trans, row);
  ldmatrix_trans(four_trans, row);
  unsigned* const mine = out + 13 * lane;
  mine[0] = one[0];
  for (int i = 0; i < 2; ++i) mine[1 + i] = two[i], mine[7 + i] = two_trans[i];
  for (int i = 0; i < 4; ++i) mine[3 + i] = four[i], mine[9 + i] = four_trans[i];
}

#if __CUDA_ARCH__ >= 900

extern "C" __global__ void stmatrix_form(const unsigned short* in, unsigned short* out) {
  __shared__ __align__(16) unsigned short shared[512];
  copy_bytes(shared, in, 512);
  __syncwarp();
  unsigned r[4];
  ldmatrix(r, shared_address(shared) + 16 * threadIdx.x);
  stmatrix(shared_address(shared + 256) + 16 * threadIdx.x, r);
  __syncwarp();
  copy_bytes(out, shared + 256, 512);
}

// Each thread reads what its neighbour wrote before the phase ended: out[phase][i] = phase * 1000 + (i + 1) % 64.
extern "C" __global__ void phases(int* out) {
  __shared__ __align__(8) unsigned long long barrier;
  __shared__ int values[4][64];
  const unsigned at = shared_address(&barrier);
  if (first_thread()) {
    mbarrier_init(at, 64);
    fence_mbarrier_init();
  }
  __syncthreads();
  const int i = threadIdx.x;
  for (int phase = 0; phase < 4; ++phase) {
    values[phase][i] = phase * 1000 + i;
    mbarrier_arrive(at);
    mbarrier_wait(at, phase % 2);
    out[phase * 64 + i] = values[phase][(i + 1) % 64];
  }
  __syncthreads();
  if (first_thread()) mbarrier_inval(at);
}

// out = in + 1, 4096 bytes of words, there and back by bulk copies.
extern "C" __global__ void bulk(const int* in, int* out) {
  __shared__ __align__(128) int shared[1024];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned at = shared_address(&barrier);
  if (first_thread()) {
    mbarrier_init(at, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(at, 4096);
    cp_async_bulk(shared_address(shared), in, 4096, at);
  }
  __syncthreads();
  mbarrier_wait(at, 0);
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) shared[i] += 1;
  fence_proxy_async();
  __syncthreads();
  if (!first_thread()) return;
  cp_async_bulk_store(out, shared_address(shared), 4096);
  cp_async_bulk_commit();
  cp_async_bulk_wait_read<0>();
  cp_async_bulk_wait<0>();
}

// Maps have rank 2 to 5 and boxes of BOX_BYTES; the box at the coordinates goes to out as it lies in shared memory.
struct __align__(64) TensorMap {
  unsigned long long opaque[16];
};
constexpr int most_box_bytes = 4096;

template <class Load>
__device__ void load_box(Load load, int bytes, char* out) {
  __shared__ __align__(1024) char shared[most_box_bytes];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned at = shared_address(&barrier);
  if (first_thread()) {
    mbarrier_init(at, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(at, bytes);
    load(shared_address(shared), at);
  }
  __syncthreads();
  mbarrier_wait(at, 0);
  copy_bytes(out, shared, bytes);
}

struct Coordinates {
  int c[5];
  int bytes;
};

extern "C" __global__ void tile_2d(const __grid_constant__ TensorMap map, Coordinates p, char* out) {
  if (first_thread()) prefetch_tensormap(&map);
  load_box([&](unsigned to, unsigned barrier) { tma_load(to, &map, barrier, p.c[0], p.c[1]); }, p.bytes, out);
}
extern "C" __global__ void tile_3d(const __grid_constant__ TensorMap map, Coordinates p, char* out) {
  load_box([&](unsigned to, unsigned barrier) { tma_load(to, &map, barrier, p.c[0], p.c[1], p.c[2]); }, p.bytes, out);
}
extern "C" __global__ void tile_4d(const __grid_constant__ TensorMap map, Coordinates p, char* out) {
  load_box([&](unsigned to, unsigned barrier) { tma_load(to, &map, barrier, p.c[0], p.c[1], p.c[2], p.c[3]); }, p.bytes,
           out);
}
extern "C" __global__ void tile_5d(const __grid_constant__ TensorMap map, Coordinates p, char* out) {
  load_box([&](unsigned to, unsigned barrier) { tma_load(to, &map, barrier, p.c[0], p.c[1], p.c[2], p.c[3], p.c[4]); },
           p.bytes, out);
}

struct Taps {
  unsigned short of[3];
};
extern "C" __global__ void im2col_3d(const __grid_constant__ TensorMap map, Coordinates p, Taps tap, char* out) {
  load_box(
      [&](unsigned to, unsigned barrier) { tma_load_im2col(to, &map, barrier, p.c[0], p.c[1], p.c[2], tap.of[0]); },
      p.bytes, out);
}
extern "C" __global__ void im2col_4d(const __grid_constant__ TensorMap map, Coordinates p, Taps tap, char* out) {
  load_box(
      [&](unsigned to, unsigned barrier) {
        tma_load_im2col(to, &map, barrier, p.c[0], p.c[1], p.c[2], p.c[3], tap.of[0], tap.of[1]);
      },
      p.bytes, out);
}
extern "C" __global__ void im2col_5d(const __grid_constant__ TensorMap map, Coordinates p, Taps tap, char* out) {
  load_box(
      [&](unsigned to, unsigned barrier) {
        tma_load_im2col(to, &map, barrier, p.c[0], p.c[1], p.c[2], p.c[3], p.c[4], tap.of[0], tap.of[1], tap.of[2]);
      },
      p.bytes, out);
}

// A cluster of two: block 0 loads a box for both; each block tells the other when it has read it.
extern "C" __global__ void cluster_of_two(const __grid_constant__ TensorMap map, Coordinates p, char* out, int* ranks) {
  __shared__ __align__(128) char shared[most_box_bytes];
  __shared__ __align__(8) unsigned long long barriers[2];
  const unsigned full = shared_address(barriers), read = shared_address(barriers + 1);
  const unsigned rank = cluster_rank();
  if (first_thread()) {
    mbarrier_init(full, 1);
    mbarrier_init(read, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(full, p.bytes);
  }
  cluster_arrive();
  cluster_wait();
  if (first_thread() && rank == 0) tma_load_multicast(shared_address(shared), &map, full, 3, p.c[0], p.c[1]);
  mbarrier_wait(full, 0);
  copy_bytes(out + rank * p.bytes, shared, p.bytes);
  __syncthreads();
  if (first_thread()) {
    mbarrier_arrive_cluster(mapa(read, rank ^ 1));
    mbarrier_wait(read, 0);
    ranks[rank] = static_cast<int>(rank) + 1;
  }
  cluster_arrive();
  cluster_wait();
}

// A cluster of two: each thread sends two numbers to the other block, which writes what it got.
extern "C" __global__ void cluster_of_two_sends(const float2* in, float2* out) {
  __shared__ float2 got[32];
  const unsigned own = shared_address(got + threadIdx.x), at = 32 * cluster_rank() + threadIdx.x;
  cluster_arrive();
  cluster_wait();
  store_shared_cluster(mapa(own, cluster_rank() ^ 1), in[at]);
  cluster_arrive();
  cluster_wait();
  out[at] = got[threadIdx.x];
}

#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// One warpgroup gives registers to the other, which holds more than half of a multiprocessor's share of 256 threads.
extern "C" __global__ void __launch_bounds__(256, 1) registers(const float* in, float* out) {
  if (threadIdx.x < 128) {
    setmaxnreg_dec<24>();
    out[threadIdx.x] = in[threadIdx.x];
  } else {
    setmaxnreg_inc<240>();
    const int i = threadIdx.x - 128;
    float v[180];
#pragma unroll
    for (int k = 0; k < 180; ++k) v[k] = in[i + k];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 180; ++k) sum += v[k] * v[(k * 7 + 1) % 180];
    out[threadIdx.x] = sum;
  }
}

#endif

#ifdef WGMMA_TYPE

// d (64 x N) = a (64 x K) * b (K x N) in several ways, one after the other in d. In memory a and b lie with K
// contiguous, but for the last two ways, which read at and bt, without.
//   0  plain core matrices, 1  a from registers, 2  rows of 128 bytes swizzled, 32 of their bytes at a time
//   3  16-bit types: at and bt, swizzled, 4  a from registers and bt
template <class T, int size, int N>
__device__ void wgmma_ways(const char* a, const char* b, const char* at, const char* bt, float* d) {
  constexpr int row = 128;         // bytes of K
  constexpr int steps = row / 32;  // K of an instruction: 32 bytes
  extern __shared__ __align__(1024) char shared[];
  char* const sa = shared;             // 64 rows
  char* const sb = shared + 64 * row;  // N rows, or as many bytes
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float sum[N / 2];
  const auto finish = [&](int way) {
    wgmma_commit();
    wgmma_wait<0>(sum);
    for (int j = 0; j < N / 8; ++j) {
      for (int i = 0; i < 4; ++i) {
        d[(way * 64 + 16 * warp + g + i / 2 * 8) * N + 8 * j + 2 * t + i % 2] = sum[4 * j + i];
      }
    }
    __syncthreads();
  };
  // Core matrices: [rows / 8][K bytes / 16][8][16].
  const auto place_plain = [&](char* to, const char* from, int rows) {
    for (int i = threadIdx.x; i < rows * row; i += blockDim.x) {
      const int r = i / row, byte = i % row;
      to[(r / 8 * (row / 16) + byte / 16) * 128 + r % 8 * 16 + byte % 16] = from[i];
    }
  };
  const auto place_swizzled = [&](char* to, const char* from, int rows) {
    for (int i = threadIdx.x; i < rows * row; i += blockDim.x) {
      const int r = i / row, byte = i % row;
      to[r * row + (byte / 16 ^ r % 8) * 16 + byte % 16] = from[i];
    }
  };
  const auto ready = [&] {
    fence_proxy_async();
    __syncthreads();
    wgmma_fence();
  };
  const auto plain = [&](const char* base, int step) {
    return wgmma_descriptor<0>(shared_address(base) + step * 256, 128, row / 16 * 128);
  };
  place_plain(sa, a, 64);
  place_plain(sb, b, N);
  ready();
  for (int step = 0; step < steps; ++step) wgmma<T>(sum, plain(sa, step), plain(sb, step), step > 0);
  finish(0);

  // Fragments: 4 bytes of K a register, 16 bytes apart.
  unsigned fragments[steps][4];
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 4; ++i) {
      const int r = 16 * warp + g + i % 2 * 8, byte = 32 * step + 4 * t + i / 2 * 16;
      fragments[step][i] = *reinterpret_cast<const unsigned*>(a + r * row + byte);
    }
  }
  ready();
  for (int step = 0; step < steps; ++step) wgmma<T>(sum, fragments[step], plain(sb, step), step > 0);
  finish(1);

  const auto swizzled = [&](const char* base, int step) {
    return wgmma_descriptor<128>(shared_address(base) + step * 32, 16, 8 * row);
  };
  place_swizzled(sa, a, 64);
  place_swizzled(sb, b, N);
  ready();
  for (int step = 0; step < steps; ++step) wgmma<T>(sum, swizzled(sa, step), swizzled(sb, step), step > 0);
  finish(2);

  if constexpr (size == 2 && N % 64 == 0) {
    // at: [K][64], bt: [N / 64][K][64], so rows of 128 bytes, K of them in each.
    constexpr int k = row / 2;
    const auto transposed = [&](const char* base, int step) {
      return wgmma_descriptor<128>(shared_address(base) + step * 16 * row, k * row, 8 * row);
    };
    place_swizzled(sa, at, k);
    place_swizzled(sb, bt, k * N / 64);
    ready();
    for (int step = 0; step < steps; ++step) {
      wgmma<T, true, true>(sum, transposed(sa, step), transposed(sb, step), step > 0);
    }
    finish(3);
    ready();
    for (int step = 0; step < steps; ++step) wgmma<T, true>(sum, fragments[step], transposed(sb, step), step > 0);
    finish(4);
  }
}

#define WGMMA_KERNEL(N)                                                                    \
  extern "C" __global__ void __launch_bounds__(128)                                        \
      wgmma_n##N(const char* a, const char* b, const char* at, const char* bt, float* d) { \
    wgmma_ways<WGMMA_TYPE, WGMMA_SIZE, N>(a, b, at, bt, d);                                \
  }
WGMMA_KERNEL(8)
WGMMA_KERNEL(16)
WGMMA_KERNEL(32)
WGMMA_KERNEL(64)
WGMMA_KERNEL(96)
WGMMA_KERNEL(128)
WGMMA_KERNEL(192)
WGMMA_KERNEL(256)

#endif
