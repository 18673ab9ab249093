// Where A and B differ: a block moves a tile of A x B elements through shared memory, so that both sides are touched in
// runs. A DENSE side has a tile's runs one behind another, and is touched as one run.
#include "layout.cuh"
#include "work_blocks.cuh"

namespace {

// Shared memory holds the narrower type, in rows along the longer dim: along a short one, the runs of the other would
// be far apart. An odd number of words a row spreads columns over the banks.
constexpr bool convert_first = TO_BYTES <= FROM_BYTES;
constexpr int tile_bytes = convert_first ? TO_BYTES : FROM_BYTES;
constexpr bool rows_of_a = TILE_A > 4 * TILE_B;
constexpr int pitch = (ceil_div((rows_of_a ? TILE_A : TILE_B) * tile_bytes, 4) | 1) * 4;  // bytes
constexpr int rows_of_tile = rows_of_a ? TILE_B : TILE_A;

__device__ __forceinline__ int shared_offset(int a, int b) {
  return rows_of_a ? b * pitch + a * tile_bytes : a * pitch + b * tile_bytes;
}
__device__ __forceinline__ void put_shared(char* tile, int a, int b, Bits<tile_bytes> bits) {
  char* const p = tile + shared_offset(a, b);
  if constexpr (tile_bytes == 1) *reinterpret_cast<unsigned char*>(p) = static_cast<unsigned char>(bits);
  if constexpr (tile_bytes == 2) *reinterpret_cast<unsigned short*>(p) = static_cast<unsigned short>(bits);
  if constexpr (tile_bytes >= 4) *reinterpret_cast<unsigned*>(p) = static_cast<unsigned>(bits);
  if constexpr (tile_bytes == 8)
    *reinterpret_cast<unsigned*>(p + 4) = static_cast<unsigned>(static_cast<unsigned long long>(bits) >> 32);
}
__device__ __forceinline__ Bits<tile_bytes> get_shared(const char* tile, int a, int b) {
  const char* const p = tile + shared_offset(a, b);
  if constexpr (tile_bytes == 1) return *reinterpret_cast<const unsigned char*>(p);
  if constexpr (tile_bytes == 2) return *reinterpret_cast<const unsigned short*>(p);
  if constexpr (tile_bytes == 4) return *reinterpret_cast<const unsigned*>(p);
  if constexpr (tile_bytes == 8) {
    return *reinterpret_cast<const unsigned*>(p) |
           static_cast<unsigned long long>(*reinterpret_cast<const unsigned*>(p + 4)) << 32;
  }
}

// A tile as one side sees it: `outer` runs (dim O) of `inner` elements (dim I), in vectors of V. Vector i begins at
// (outer_of(i), inner_of(i)); in a dense tile it may go on in the next run.
template <int outer, int inner, int V, bool dense>
struct Side {
  static constexpr int per_run = ceil_div(inner, V);
  static constexpr int vectors = dense ? ceil_div(outer * inner, V) : outer * per_run;
  __device__ static int outer_of(int i) { return dense ? i * V / inner : i / per_run; }
  __device__ static int inner_of(int i) { return dense ? i * V % inner : i % per_run * V; }
  // Of element k of the vector that begins at (o, at).
  __device__ static void step(int& o, int& at) {
    if (++at == inner && dense) at = 0, ++o;
  }
};
using From = Side<TILE_A, TILE_B, FROM_VECTOR, FROM_DENSE>;
using To = Side<TILE_B, TILE_A, TO_VECTOR, TO_DENSE>;

// Vectors that a thread has in flight: 64 bytes, or all.
constexpr int batch = min_of(16 / ceil_div(FROM_BYTES * FROM_VECTOR, 4), ceil_div(From::vectors, THREADS));

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS), transpose, (const char* __restrict__ from, char* __restrict__ to), (from, to)) {
  __shared__ __align__(16) char tile[rows_of_tile * pitch];
  constexpr int tiles_b = ceil_div(SIZE_B, TILE_B), tiles_a = ceil_div(SIZE_A, TILE_A);
  const int b0 = WORK_BLOCK % tiles_b * TILE_B;
  const int a0 = WORK_BLOCK / tiles_b % tiles_a * TILE_A;
  const Offsets outer = outer_offsets(WORK_BLOCK / (tiles_b * tiles_a));
  from += (outer.from + static_cast<long long>(a0) * FROM_STRIDE_A + static_cast<long long>(b0) * FROM_STRIDE_B) *
          FROM_BYTES;
  to += (outer.to + static_cast<long long>(a0) * TO_STRIDE_A + static_cast<long long>(b0) * TO_STRIDE_B) * TO_BYTES;
  const int rows = min(TILE_A, SIZE_A - a0), columns = min(TILE_B, SIZE_B - b0);

  using FromVector = Vector<FROM_BYTES, FROM_VECTOR>;
  const auto source = [&](int a, int b) {
    return from + (static_cast<long long>(a) * FROM_STRIDE_A + static_cast<long long>(b) * FROM_STRIDE_B) * FROM_BYTES;
  };
  // Whether a vector lies in the tensor as a whole.
  const auto whole = [&](int a, int b) {
    return FROM_DENSE ? a * TILE_B + b + FROM_VECTOR <= rows * TILE_B : a < rows && b + FROM_VECTOR <= columns;
  };
#pragma unroll 1
  for (int first = threadIdx.x; first < From::vectors; first += THREADS * batch) {
    FromVector vectors[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const int i = first + k * THREADS;
      if (i >= From::vectors) continue;
      const int a = From::outer_of(i), b = From::inner_of(i);
      if (whole(a, b)) {
        vectors[k].load(source(a, b));
      } else if constexpr (FROM_VECTOR > 1) {
        vectors[k].clear();
        int o = a, at = b;
#pragma unroll
        for (int e = 0; e < FROM_VECTOR; ++e, From::step(o, at)) {
          if (o >= rows || at >= columns) continue;
          Vector<FROM_BYTES, 1> one;
          one.load(source(o, at));
          vectors[k].put(e, one.get(0));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const int i = first + k * THREADS;
      if (i >= From::vectors) continue;
      int a = From::outer_of(i), b = From::inner_of(i);
      if constexpr (FROM_TYPE == TO_TYPE && !FROM_DENSE && !rows_of_a && FROM_BYTES * FROM_VECTOR >= 4) {
#pragma unroll
        for (int w = 0; w < FromVector::words; ++w) {
          if (b * tile_bytes + 4 * w < pitch) {
            *reinterpret_cast<unsigned*>(tile + shared_offset(a, b) + 4 * w) = vectors[k].word[w];
          }
        }
      } else {
#pragma unroll
        for (int e = 0; e < FROM_VECTOR; ++e, From::step(a, b)) {
          if (a >= TILE_A || b >= TILE_B) continue;
          if constexpr (convert_first) {
            put_shared(tile, a, b, converted(vectors[k].get(e)));
          } else {
            put_shared(tile, a, b, vectors[k].get(e));
          }
        }
      }
    }
  }
  __syncthreads();

  const auto target = [&](int a, int b) {
    return to + (static_cast<long long>(a) * TO_STRIDE_A + static_cast<long long>(b) * TO_STRIDE_B) * TO_BYTES;
  };
  const auto element = [&](int a, int b) {
    if constexpr (convert_first) {
      return get_shared(tile, a, b);
    } else {
      return converted(get_shared(tile, a, b));
    }
  };
#pragma unroll 4
  for (int i = threadIdx.x; i < To::vectors; i += THREADS) {
    int b = To::outer_of(i), a = To::inner_of(i);
    if (TO_DENSE ? b * TILE_A + a + TO_VECTOR <= columns * TILE_A : b < columns && a + TO_VECTOR <= rows) {
      char* const at = target(a, b);
      Vector<TO_BYTES, TO_VECTOR> vector;
      if constexpr (FROM_TYPE == TO_TYPE && !TO_DENSE && rows_of_a && TO_BYTES * TO_VECTOR >= 4) {
#pragma unroll
        for (int w = 0; w < vector.words; ++w) {
          vector.word[w] = *reinterpret_cast<const unsigned*>(tile + shared_offset(a, b) + 4 * w);
        }
      } else {
        vector.clear();
#pragma unroll
        for (int e = 0; e < TO_VECTOR; ++e, To::step(b, a)) vector.put(e, element(a, b));
      }
      vector.store(at);
    } else if constexpr (TO_VECTOR > 1) {
#pragma unroll 1
      for (int e = 0; e < TO_VECTOR; ++e, To::step(b, a)) {
        if (b >= columns || a >= rows) continue;
        Vector<TO_BYTES, 1> one;
        one.clear();
        one.put(0, element(a, b));
        one.store(target(a, b));
      }
    }
  }
}
