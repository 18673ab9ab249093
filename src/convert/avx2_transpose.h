// Transposing with AVX2: a step of a piece, from channels apart (nchw: rows) to channels side by side, or back.
//
// Everything is made of lanes: 16 bytes of elements of the narrower of the two types, 16/E of them (E: bytes of an
// element). A type is converted where a lane is loaded (f32 to 16 bits) or stored (16 bits to f32), so that what is
// transposed is narrow. N = 16/E lanes are transposed by one network: log2(N) rounds, in which the vectors i and i +
// N/2 are interleaved element by element. A vector has two lanes, each on its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/avx2_elements.h"

namespace convoy::conversion::avx2_steps {

using Bytes = std::byte;

CONVOY_AVX2 __m128i load8(const Bytes* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 __m128i load16(const Bytes* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 __m256i load32(const Bytes* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_AVX2 void store16(Bytes* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
CONVOY_AVX2 void store32(Bytes* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
CONVOY_AVX2 __m256i both(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
CONVOY_AVX2 __m128i low_lane(__m256i v) { return _mm256_castsi256_si128(v); }
CONVOY_AVX2 __m128i high_lane(__m256i v) { return _mm256_extracti128_si256(v, 1); }

// ---- types: a lane, two, or two that lie side by side, in memory

template <int kSize>
struct Same {
  static constexpr int kFrom = kSize, kTo = kSize, E = kSize;
  CONVOY_AVX2 __m128i load(const Bytes* p) { return load16(p); }
  CONVOY_AVX2 __m256i load_both(const Bytes* p, const Bytes* q) { return both(load16(p), load16(q)); }
  CONVOY_AVX2 __m256i load_two(const Bytes* p) { return load32(p); }
  CONVOY_AVX2 void store(Bytes* p, __m128i v) { store16(p, v); }
  CONVOY_AVX2 void store_two(Bytes* p, __m256i v) { store32(p, v); }
};

template <class Format>
struct Widen : Same<2> {
  static constexpr int kTo = 4;
  CONVOY_AVX2 void store(Bytes* p, __m128i v) { store32(p, _mm256_castps_si256(Format::widen(v))); }
  CONVOY_AVX2 void store_two(Bytes* p, __m256i v) {
    __m256 low, high;
    Format::widen(v, low, high);
    store32(p, _mm256_castps_si256(low));
    store32(p + 32, _mm256_castps_si256(high));
  }
};

template <class Format>
struct Narrow : Same<2> {
  static constexpr int kFrom = 4;
  CONVOY_AVX2 __m128i load(const Bytes* p) {
    return Format::narrow(_mm256_loadu_ps(reinterpret_cast<const float*>(p)));
  }
  CONVOY_AVX2 __m256i load_both(const Bytes* p, const Bytes* q) {
    return Format::narrow(_mm256_loadu_ps(reinterpret_cast<const float*>(p)),
                          _mm256_loadu_ps(reinterpret_cast<const float*>(q)));
  }
  CONVOY_AVX2 __m256i load_two(const Bytes* p) { return load_both(p, p + 32); }
};

// ---- the network

template <int E>
CONVOY_AVX2 __m256i interleave_low(__m256i a, __m256i b) {
  return E == 1   ? _mm256_unpacklo_epi8(a, b)
         : E == 2 ? _mm256_unpacklo_epi16(a, b)
         : E == 4 ? _mm256_unpacklo_epi32(a, b)
                  : _mm256_unpacklo_epi64(a, b);
}
template <int E>
CONVOY_AVX2 __m256i interleave_high(__m256i a, __m256i b) {
  return E == 1   ? _mm256_unpackhi_epi8(a, b)
         : E == 2 ? _mm256_unpackhi_epi16(a, b)
         : E == 4 ? _mm256_unpackhi_epi32(a, b)
                  : _mm256_unpackhi_epi64(a, b);
}

template <int E, int N>
CONVOY_AVX2 void network(__m256i (&v)[N]) {
#pragma GCC unroll 4
  for (int round = 1; round < N; round *= 2) {
    __m256i next[N];
#pragma GCC unroll 4
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = interleave_low<E>(v[i], v[i + N / 2]);
      next[2 * i + 1] = interleave_high<E>(v[i], v[i + N / 2]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) v[i] = next[i];
  }
}

// ---- a step from rows: 64 / E positions of kChannels (8 or 16; of 8 bytes each 8)

struct Mask {  // what of a position's bytes is no padding
  __m256i low, high;
};

// 16 rows of bytes: 16 registers are too few for the network. Its first round takes whole lines, each once, and makes
// four parts that its other rounds stay within.
CONVOY_AVX2 void bytes_from_rows(const Bytes* const* rows, std::int64_t at, Bytes* dst, std::int64_t position,
                                 __m256i mask) {
  __m256i parts[4][8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const __m256i a = load32(rows[i] + at + 32 * k), b = load32(rows[i + 8] + at + 32 * k);
      parts[2 * k][i] = interleave_low<1>(a, b);
      parts[2 * k + 1][i] = interleave_high<1>(a, b);
    }
  }
#pragma GCC unroll 1
  for (int k = 0; k < 4; ++k) {
    __m256i v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) v[i] = parts[k][i];
    network<1>(v);
    Bytes* to = dst + (k / 2 * 32 + k % 2 * 8) * position;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i, to += position) {
      v[i] = _mm256_and_si256(v[i], mask);
      store16(to, low_lane(v[i]));
      store16(to + 16 * position, high_lane(v[i]));
    }
  }
}

template <class T, int kChannels>
CONVOY_AVX2 void step_from_rows(const Bytes* const* rows, std::int64_t at, Bytes* dst, std::int64_t position,
                                const Mask& mask) {
  constexpr int E = T::E, kLane = 16 / E, kFrom = T::kFrom;
  if constexpr (E >= 4) {
#pragma GCC unroll 2
    for (int c = 0; c < kChannels; c += 2 * kLane) {
      Bytes* to = dst + E * c;
      for (int k = 0; k < 4; ++k) {
        __m256i v[kLane];
#pragma GCC unroll 4
        for (int i = 0; i < kLane; ++i) {
          const std::int64_t from = at + 16 * k;
          v[i] = both(load16(rows[c + i] + from), load16(rows[c + i + kLane] + from));
        }
        network<E>(v);
#pragma GCC unroll 4
        for (int i = 0; i < kLane; ++i, to += position) {
          store32(to, _mm256_and_si256(v[i], c == 0 ? mask.low : mask.high));
        }
      }
    }
  } else if constexpr (E == 2 && kChannels == 16) {
    for (int k = 0; k < 4; ++k, at += kLane * kFrom) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = T::load_both(rows[i] + at, rows[i + 8] + at);
      network<2>(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) T::store_two(dst, _mm256_and_si256(v[i], mask.low));
    }
  } else if constexpr (E == 2) {
    for (int k = 0; k < 2; ++k, at += 2 * kLane * kFrom) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = T::load_two(rows[i] + at);
      network<2>(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) {
        v[i] = _mm256_and_si256(v[i], mask.low);
        T::store(dst, low_lane(v[i]));
      }
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) T::store(dst, high_lane(v[i]));
    }
  } else if constexpr (kChannels == 16) {
    bytes_from_rows(rows, at, dst, position, mask.low);
  } else {
    for (int k = 0; k < 2; ++k, at += 32, dst += 32 * position) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = load32(rows[i] + at);
      network<1>(v);
      const auto put = [&](Bytes * to, __m128i two) __attribute__((always_inline)) {  // positions
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), two);
        _mm_storeh_pi(reinterpret_cast<__m64*>(to + position), _mm_castsi128_ps(two));
      };
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = _mm256_and_si256(v[i], mask.low);
      if (position == 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
          store16(dst + 16 * i, low_lane(v[i]));
          store16(dst + 16 * i + 128, high_lane(v[i]));
        }
      } else {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
          put(dst + 2 * i * position, low_lane(v[i]));
          put(dst + (2 * i + 16) * position, high_lane(v[i]));
        }
      }
    }
  }
}

// ---- a step to rows: 64 / E positions of kChannels. Backwards, so that a row that stands in for padding too gets its
// own channel last.

template <class T, int kChannels>
CONVOY_AVX2 void step_to_rows(const Bytes* src, std::int64_t position, Bytes* const* rows, std::int64_t at) {
  constexpr int kLane = 16 / T::E;  // channels, and half of the positions, of a network
  if constexpr (T::E == 1) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k, src += 32 * position, at += 32) {
      if constexpr (kChannels == 16) {
        __m256i v[8], w[8];
        const Bytes* from = src;
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i, from += position) v[i] = both(load16(from), load16(from + 16 * position));
        network<1>(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i, from += position) w[i] = both(load16(from), load16(from + 16 * position));
        network<1>(w);
#pragma GCC unroll 8
        for (int i = 7; i >= 0; --i) {
          store32(rows[2 * i + 1] + at, _mm256_unpackhi_epi64(v[i], w[i]));
          store32(rows[2 * i] + at, _mm256_unpacklo_epi64(v[i], w[i]));
        }
      } else {
        __m256i v[8];
        const Bytes* from = src;
        if (position == 8) {
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i, from += 16) {
            const __m256i a = both(load16(from), load16(from + 128)), b = both(load16(from + 64), load16(from + 192));
            v[2 * i] = interleave_low<1>(a, b);
            v[2 * i + 1] = interleave_high<1>(a, b);
          }
        } else {
#pragma GCC unroll 8
          for (int i = 0; i < 8; ++i, from += position) {
            v[i] = both(_mm_unpacklo_epi8(load8(from), load8(from + 8 * position)),
                        _mm_unpacklo_epi8(load8(from + 16 * position), load8(from + 24 * position)));
          }
        }
        network<1>(v);
#pragma GCC unroll 8
        for (int i = 7; i >= 0; --i) store32(rows[i] + at, v[i]);
      }
    }
  } else {
#pragma GCC unroll 4
    for (int c = kChannels - kLane; c >= 0; c -= kLane) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const Bytes* from = src + c * T::kFrom + 2 * k * kLane * position;
        __m256i v[kLane];
#pragma GCC unroll 8
        for (int i = 0; i < kLane; ++i, from += position) {
          v[i] = T::load_both(from, from + kLane * position);
        }
        network<T::E>(v);
#pragma GCC unroll 8
        for (int i = kLane - 1; i >= 0; --i) T::store_two(rows[c + i] + at + 2 * k * kLane * T::kTo, v[i]);
      }
    }
  }
}

}  // namespace convoy::conversion::avx2_steps
