// What the kernels that copy a tensor from one placement to another share. Dim A is the one whose elements lie closest
// together in the target, B that of the source; what else there is are OUTER dims, the slowest first. Sizes, strides in
// elements, tiles and vectors are constants (layout/layout.cc), but for the size of the slowest dim of all where that
// is an outer one, or the only one: tensors of other batches share a kernel.
#pragma once

#include "axis.cuh"
#include "problem.h"
#include "scalar.cuh"
#include "types.cuh"

// The bits of an element, and `count` of them in words as memory has them.
template <int bytes>
struct BitsOf {
  using type = unsigned;
};
template <>
struct BitsOf<8> {
  using type = unsigned long long;
};
template <int bytes>
using Bits = typename BitsOf<bytes>::type;

template <int bytes, int count>
struct Vector {
  static constexpr int words = (bytes * count + 3) / 4;
  unsigned word[words];

  __device__ __forceinline__ Bits<bytes> get(int i) const {
    if constexpr (bytes == 8) return word[2 * i] | static_cast<unsigned long long>(word[2 * i + 1]) << 32;
    if constexpr (bytes == 4) return word[i];
    if constexpr (bytes < 4) return word[i * bytes / 4] >> i * bytes % 4 * 8 & ((1u << bytes % 4 * 8) - 1);
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < words; ++i) word[i] = 0;
  }
  // Once for each place, after clear().
  __device__ __forceinline__ void put(int i, Bits<bytes> bits) {
    if constexpr (bytes == 8) {
      word[2 * i] = static_cast<unsigned>(bits);
      word[2 * i + 1] = static_cast<unsigned>(bits >> 32);
    } else {
      word[i * bytes / 4] |= bits << i * bytes % 4 * 8;
    }
  }
  __device__ __forceinline__ void load(const char* p) {
    if constexpr (bytes * count == 1) {
      word[0] = __ldg(reinterpret_cast<const unsigned char*>(p));
    } else if constexpr (bytes * count == 2) {
      word[0] = __ldg(reinterpret_cast<const unsigned short*>(p));
    } else if constexpr (words == 1) {
      word[0] = __ldg(reinterpret_cast<const unsigned*>(p));
    } else if constexpr (words == 2) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(p));
      word[0] = v.x, word[1] = v.y;
    } else {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(p));
      word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
    }
  }
  __device__ __forceinline__ void store(char* p) const {
    if constexpr (bytes * count == 1) {
      *reinterpret_cast<unsigned char*>(p) = static_cast<unsigned char>(word[0]);
    } else if constexpr (bytes * count == 2) {
      *reinterpret_cast<unsigned short*>(p) = static_cast<unsigned short>(word[0]);
    } else if constexpr (words == 1) {
      *reinterpret_cast<unsigned*>(p) = word[0];
    } else if constexpr (words == 2) {
      *reinterpret_cast<uint2*>(p) = make_uint2(word[0], word[1]);
    } else {
      *reinterpret_cast<uint4*>(p) = make_uint4(word[0], word[1], word[2], word[3]);
    }
  }
};

__host__ __device__ constexpr bool is_float(int type) {
  return type == TYPE_F32 || type == TYPE_F16 || type == TYPE_BF16;
}

template <int type>
__device__ __forceinline__ float as_float(unsigned bits) {
  if constexpr (type == TYPE_F16) return to_float(f16{static_cast<unsigned short>(bits)});
  if constexpr (type == TYPE_BF16) return to_float(bf16{static_cast<unsigned short>(bits)});
  return __uint_as_float(bits);
}

// As store_from_double of convoy/data_type.h.
__device__ __forceinline__ Bits<TO_BYTES> converted(Bits<FROM_BYTES> bits) {
  if constexpr (FROM_TYPE == TO_TYPE) {
    return bits;
  } else if constexpr (is_float(FROM_TYPE) && is_float(TO_TYPE)) {
    const float v = as_float<FROM_TYPE>(static_cast<unsigned>(bits));
    if constexpr (TO_TYPE == TYPE_F16) return from_float<f16>(v).bits;
    if constexpr (TO_TYPE == TYPE_BF16) return from_float<bf16>(v).bits;
    return __float_as_uint(v);
  } else {
    Bits<TO_BYTES> made = 0;
    store_double<TO_TYPE>(&made, 0, load_double<FROM_TYPE>(&bits, 0));
    return made;
  }
}

// Offsets in a tensor of the coordinates of the outer dims that `index` counts.
struct Offsets {
  long long from, to;
};
__device__ __forceinline__ Offsets outer_offsets(Index<SMALL> index) {
  const auto c2 = index % OUTER_2;
  const auto rest = index / OUTER_2;
  const auto c1 = rest % OUTER_1;
  const auto c0 = rest / OUTER_1;
  return {static_cast<long long>(c0) * FROM_OUTER_0 + static_cast<long long>(c1) * FROM_OUTER_1 +
              static_cast<long long>(c2) * FROM_OUTER_2,
          static_cast<long long>(c0) * TO_OUTER_0 + static_cast<long long>(c1) * TO_OUTER_1 +
              static_cast<long long>(c2) * TO_OUTER_2};
}
