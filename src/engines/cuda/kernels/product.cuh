// Products of matrices on the tensor cores, a warp's part of a tile: its sums, and how they leave.
#pragma once

#include "epilogue.cuh"
#include "ptx.cuh"
#include "types.cuh"

// Bytes behind a row in shared memory, so that 8 rows lie in different banks, and of rows of floats that are terms 4.
constexpr int product_pad = 16, product_pad_of_terms = 32;

// To nearest: tensor cores drop the last 13 bits. What would become an infinity, or is none or no number, stays.
__device__ __forceinline__ void round_to_tf32(unsigned (&v)[4]) {
#pragma unroll
  for (unsigned& each : v) each += (each & 0x7fffffffu) < 0x7f7ff000u ? 0x1000u : 0u;
}

// Floats as two of tf32 each, 11 bits to nearest and what is left, of which tensor cores drop a 2^-23 of the float at
// most. What is too large for tf32 becomes infinities of both signs, whose sum is NaN.
__device__ __forceinline__ void split_tf32(unsigned (&v)[4], unsigned (&low)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned high = (v[i] + 0x1000u) & 0xffffe000u;
    low[i] = __float_as_uint(__uint_as_float(v[i]) - __uint_as_float(high));
    v[i] = high;
  }
}

// sums += a * b over 8 terms of f32, as three products of tf32, of which the largest comes last. Tensor cores round sums
// towards zero, so those of 8 terms are added by themselves, to nearest (Ootomo and Yokota, Recovering single precision
// accuracy from Tensor Cores, 2022).
__device__ __forceinline__ void add_product(float (&sums)[4], const unsigned (&a)[4], const unsigned (&a_low)[4],
                                            const unsigned (&b)[2], const unsigned (&b_low)[2]) {
  float of_8[4] = {};
  mma_m16n8k8_tf32(of_8, a_low, b);
  mma_m16n8k8_tf32(of_8, a, b_low);
  mma_m16n8k8_tf32(of_8, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += of_8[i];
}

// sums += a * b over BYTES of terms: a has M rows of terms, b N rows of terms or, with `terms_are_rows`, a row a term.
// A_PITCH and B_PITCH are the bytes from one row to the next. Floats are rounded to tf32, or with `strict` split.
template <class T, int M, int N, int BYTES, int A_PITCH, int B_PITCH, bool terms_are_rows, bool strict>
__device__ __forceinline__ void multiply(float (&sums)[M / 16][N / 8][4], unsigned a, unsigned b) {
  static_assert(M % 16 == 0 && N % 16 == 0 && BYTES % 32 == 0, "no whole products");
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int at = 0; at < BYTES; at += 32) {
    unsigned left[M / 16][4], right[N / 16][4];
#pragma unroll
    for (int i = 0; i < M / 16; ++i) ldmatrix(left[i], a + (16 * i + lane % 16) * A_PITCH + at + lane / 16 * 16);
    const auto load_right = [&](int j) {
      if constexpr (terms_are_rows && sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int term = at / 4 + lane % 4 + i % 2 * 4, column = 16 * j + i / 2 * 8 + lane / 4;
          load_shared(right[j][i], b + term * B_PITCH + 4 * column);
        }
      } else if constexpr (terms_are_rows) {
        ldmatrix_trans(right[j], b + (at / 2 + lane % 16) * B_PITCH + 32 * j + lane / 16 * 16);
      } else {
        ldmatrix(right[j], b + (16 * j + lane % 8 + lane / 16 * 8) * B_PITCH + at + lane / 8 % 2 * 16);
      }
    };
    if constexpr (sizeof(T) == 4 && !strict) {
#pragma unroll
      for (int i = 0; i < M / 16; ++i) round_to_tf32(left[i]);
#pragma unroll
      for (int j = 0; j < N / 16; ++j) {
        load_right(j);
        round_to_tf32(right[j]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const unsigned columns[2] = {right[j][2 * half], right[j][2 * half + 1]};
#pragma unroll
          for (int i = 0; i < M / 16; ++i) mma_m16n8k8_tf32(sums[i][2 * j + half], left[i], columns);
        }
      }
    } else if constexpr (sizeof(T) == 4) {
      unsigned left_low[M / 16][4];
#pragma unroll
      for (int i = 0; i < M / 16; ++i) split_tf32(left[i], left_low[i]);
#pragma unroll
      for (int j = 0; j < N / 16; ++j) {
        unsigned right_low[4];
        load_right(j);
        split_tf32(right[j], right_low);
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
          const unsigned columns[2] = {right[j][half], right[j][half + 1]};
          const unsigned columns_low[2] = {right_low[half], right_low[half + 1]};
#pragma unroll
          for (int i = 0; i < M / 16; ++i) {
            add_product(sums[i][2 * j + half / 2], left[i], left_low[i], columns, columns_low);
          }
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < N / 16; ++j) load_right(j);
#pragma unroll
      for (int i = 0; i < M / 16; ++i) {
#pragma unroll
        for (int j = 0; j < N / 8; ++j) {
          const unsigned columns[2] = {right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]};
          if constexpr (same_type<T, bf16>::value) {
            mma_m16n8k16_bf16(sums[i][j], left[i], columns);
          } else {
            mma_m16n8k16_f16(sums[i][j], left[i], columns);
          }
        }
      }
    }
  }
}

// The floats of shared memory that a warp needs to put 16 rows of N columns in order.
template <int N>
constexpr int slab_floats = 16 * (N + 8);

// The epilogue, V neighbouring columns at a time: place(row, column) is where they are in out, or below 0 where there
// is nothing; channel(column) is the first one's, whose biases are biases[column] and the next. Each warp has a slab of
// its own, which nobody else uses meanwhile. What is read besides the sums is on its way for all rows before the first
// are put in order: `early` before there are sums, when the finish is made.
template <class T, int M, int N, int V, bool early, class Place, class Channel>
class TileFinish {
  static constexpr int pitch = N + 8, units = N / V, turns = (16 * units + 31) / 32;
  static constexpr bool one_column = 32 % units == 0;  // a lane's is the same in all rows

 public:
  __device__ __forceinline__ TileFinish(T* out, const EpilogueArgs& args, const Place& place, const Channel& channel)
      : out_(out), args_(args), place_(place), channel_(channel) {
    if constexpr (early) load();
  }

  __device__ __forceinline__ void operator()(const float (&sums)[M / 16][N / 8][4], float* slab, const float* biases) {
    if constexpr (!early) load();
    const int lane = threadIdx.x % 32;
    float bias[V] = {};
    if constexpr (BIAS && one_column) take(bias, biases + column_of(0));
#pragma unroll
    for (int i = 0; i < M / 16; ++i) {
      __syncwarp();
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* const to = slab + (lane / 4 + 8 * half) * pitch + 8 * j + lane % 4 * 2;
          to[0] = sums[i][j][2 * half];
          to[1] = sums[i][j][2 * half + 1];
        }
      }
      __syncwarp();
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        const int row = row_of(turn), column = column_of(turn);
        const long long at = row < 16 ? place_(16 * i + row, column) : -1;
        if (at < 0) continue;
        if constexpr (BIAS && !one_column) take(bias, biases + column);
        float v[V];
        take(v, slab + row * pitch + column);
        epilogue<T, V>(v, beside_[i][turn], bias, channel_(column), args_);
        store_raw<T, V>(out_ + at, pack<T, V>(v));
      }
    }
  }

 private:
  __device__ __forceinline__ static int row_of(int turn) {
    return (static_cast<int>(threadIdx.x % 32) + 32 * turn) / units;
  }
  __device__ __forceinline__ static int column_of(int turn) {
    return (static_cast<int>(threadIdx.x % 32) + (one_column ? 0 : 32 * turn)) % units * V;
  }
  __device__ __forceinline__ static void take(float (&to)[V], const float* from) {
#pragma unroll
    for (int e = 0; e < V; ++e) to[e] = from[e];
  }
  __device__ __forceinline__ void load() {
    if constexpr (BETA != 0.0f || GAMMA != 0.0f) {
#pragma unroll
      for (int i = 0; i < M / 16; ++i) {
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
          const long long at = row_of(turn) < 16 ? place_(16 * i + row_of(turn), column_of(turn)) : -1;
          if (at >= 0) beside_[i][turn].load(out_, at, args_);
        }
      }
    }
  }

  T* out_;
  const EpilogueArgs& args_;
  const Place& place_;
  const Channel& channel_;
  Beside<T, V> beside_[M / 16][turns];
};
