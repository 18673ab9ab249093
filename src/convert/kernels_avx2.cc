// Conversions with AVX2. They wait for memory and for shuffles of 16-byte lanes, so that wider vectors gain little.
//
// What has channels side by side on one side and apart on the other goes through a block that stays in the first cache:
// a row of 256 bytes for each of 8 or more channels. Rows of channels may be a multiple of 4 KB apart, and then all lie
// in one set of the cache, which holds 8 lines: so each line of theirs is read or written once, whole (where they don't
// begin at a line, one in four twice). Types are converted on the way between these rows and the block.
//
// Between the block and positions with their channels side by side, everything is transposed by one network: N vectors,
// log2(N) rounds in which the vectors i and i + N/2 are interleaved element by element. Within a 16-byte lane, N = 16/E
// vectors (E: bytes of an element) of 16/E elements come out transposed, each lane on its own.
#include <cstring>

#include "convert/kernels.h"
#include "core/avx2_elements.h"

namespace convoy::conversion {
namespace {

using Bytes = std::byte;

CONVOY_AVX2 __m128i load8(const Bytes* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 __m128i load16(const Bytes* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 __m256i load32(const Bytes* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_AVX2 void store16(Bytes* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
CONVOY_AVX2 void store32(Bytes* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
CONVOY_AVX2 __m256i both(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
CONVOY_AVX2 __m128i low_half(__m256i v) { return _mm256_castsi256_si128(v); }
CONVOY_AVX2 __m128i high_half(__m256i v) { return _mm256_extracti128_si256(v, 1); }

template <int E>
CONVOY_AVX2 __m256i interleave_low(__m256i a, __m256i b) {
  return E == 1 ? _mm256_unpacklo_epi8(a, b) : E == 2 ? _mm256_unpacklo_epi16(a, b) : _mm256_unpacklo_epi32(a, b);
}
template <int E>
CONVOY_AVX2 __m256i interleave_high(__m256i a, __m256i b) {
  return E == 1 ? _mm256_unpackhi_epi8(a, b) : E == 2 ? _mm256_unpackhi_epi16(a, b) : _mm256_unpackhi_epi32(a, b);
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

// Of 16 rows of bytes 16 registers are too few for the network. Its first round makes the lower or the upper half of
// what comes out from all 8 pairs of rows, and its other rounds stay within the half.
template <bool kLow>
CONVOY_AVX2 __m256i first_round(__m256i a, __m256i b) {
  return kLow ? interleave_low<1>(a, b) : interleave_high<1>(a, b);
}

constexpr std::int64_t kRow = 256;  // bytes of a row of the block
constexpr std::int64_t kStep = 64;  // of it that are transposed at a time

// ---- from the block to positions: kStep / E positions of kChannels (8 or 16) each, `position` apart

template <bool kLow>
CONVOY_AVX2 void half_of_bytes_to_positions(const Bytes* block, Bytes* dst, std::int64_t position) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) v[i] = first_round<kLow>(load32(block + i * kRow), load32(block + (i + 8) * kRow));
  network<1>(v);
  dst += kLow ? 0 : 8 * position;
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, dst += position) store16(dst, low_half(v[i]));
  dst += 8 * position;
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, dst += position) store16(dst, high_half(v[i]));
}

template <int E, int kChannels>
void to_positions(const Bytes* block, Bytes* dst, std::int64_t position) {
  if constexpr (E == 4) {
    for (int k = 0; k < 4; ++k, block += 16) {
      __m256i v[4], w[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) v[i] = both(load16(block + i * kRow), load16(block + (i + 4) * kRow));
      network<4>(v);
      if constexpr (kChannels == 16) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) w[i] = both(load16(block + (i + 8) * kRow), load16(block + (i + 12) * kRow));
        network<4>(w);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i, dst += position) {
        store32(dst, v[i]);
        if constexpr (kChannels == 16) store32(dst + 32, w[i]);
      }
    }
  } else if constexpr (E == 2 && kChannels == 16) {
    for (int k = 0; k < 4; ++k, block += 16) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = both(load16(block + i * kRow), load16(block + (i + 8) * kRow));
      network<2>(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) store32(dst, v[i]);
    }
  } else if constexpr (E == 2) {
    for (int k = 0; k < 2; ++k, block += 32) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = load32(block + i * kRow);
      network<2>(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) store16(dst, low_half(v[i]));
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i, dst += position) store16(dst, high_half(v[i]));
    }
  } else if constexpr (kChannels == 16) {
    for (int k = 0; k < 2; ++k, block += 32, dst += 32 * position) {
      half_of_bytes_to_positions<true>(block, dst, position);
      half_of_bytes_to_positions<false>(block, dst, position);
    }
  } else {
    const auto put = [&](__m128i two) __attribute__((always_inline)) {  // positions
      _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), two);
      _mm_storeh_pd(reinterpret_cast<double*>(dst + position), _mm_castsi128_pd(two));
      dst += 2 * position;
    };
    for (int k = 0; k < 2; ++k, block += 32) {
      __m256i v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = load32(block + i * kRow);
      network<1>(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) put(low_half(v[i]));
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) put(high_half(v[i]));
    }
  }
}

// ---- from positions to the block

template <bool kLow>
CONVOY_AVX2 void half_of_bytes_to_block(const Bytes* src, std::int64_t position, Bytes* block) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, src += position) {
    v[i] = first_round<kLow>(both(load16(src), load16(src + 16 * position)),
                             both(load16(src + 8 * position), load16(src + 24 * position)));
  }
  network<1>(v);
  block += kLow ? 0 : 8 * kRow;
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store32(block + i * kRow, v[i]);
}

template <int E, int kChannels>
void to_block(const Bytes* src, std::int64_t position, Bytes* block) {
  if constexpr (E == 1) {
    for (int k = 0; k < 2; ++k, src += 32 * position, block += 32) {
      if constexpr (kChannels == 16) {
        half_of_bytes_to_block<true>(src, position, block);
        half_of_bytes_to_block<false>(src, position, block);
      } else {
        __m256i v[8];
        const Bytes* from = src;
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i, from += position) {
          v[i] = both(_mm_unpacklo_epi8(load8(from), load8(from + 8 * position)),
                      _mm_unpacklo_epi8(load8(from + 16 * position), load8(from + 24 * position)));
        }
        network<1>(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store32(block + i * kRow, v[i]);
      }
    }
  } else {
    constexpr int kLane = 16 / E;  // channels, and half of the positions, of a network
    for (int k = 0; k < 2; ++k, src += 2 * kLane * position, block += 32) {
      for (int c = 0; c < kChannels; c += kLane) {
        const Bytes* from = src + c * E;
        __m256i v[kLane];
#pragma GCC unroll 8
        for (int i = 0; i < kLane; ++i, from += position) v[i] = both(load16(from), load16(from + kLane * position));
        network<E>(v);
#pragma GCC unroll 8
        for (int i = 0; i < kLane; ++i) store32(block + (c + i) * kRow, v[i]);
      }
    }
  }
}

// ---- rows: how elements are converted on the way

// Elements of E bytes as they are.
template <int E>
struct Same {
  static constexpr int kFrom = E, kTo = E;
  // 32 bytes of what is written.
  CONVOY_AVX2 void vector(const Bytes* src, Bytes* dst) { store32(dst, load32(src)); }
};

template <class Format>
struct Widen {
  static constexpr int kFrom = 2, kTo = 4;
  CONVOY_AVX2 void vector(const Bytes* src, Bytes* dst) {
    store32(dst, _mm256_castps_si256(Format::widen(load16(src))));
  }
};

template <class Format>
struct Narrow {
  static constexpr int kFrom = 4, kTo = 2;
  CONVOY_AVX2 void vector(const Bytes* src, Bytes* dst) {
    const auto* from = reinterpret_cast<const float*>(src);
    store32(dst, both(Format::narrow(_mm256_loadu_ps(from)), Format::narrow(_mm256_loadu_ps(from + 8))));
  }
  // Half as much, which is 8 elements.
  CONVOY_AVX2 void half(const Bytes* src, Bytes* dst) {
    store16(dst, Format::narrow(_mm256_loadu_ps(reinterpret_cast<const float*>(src))));
  }
};

// The last few elements of a row, through memory that has room for a vector.
template <class Rows>
__attribute__((noinline)) void end_of_row(const Bytes* src, Bytes* dst, std::int64_t count) {
  Bytes from[64] = {}, to[32];
  std::memcpy(from, src, static_cast<std::size_t>(count * Rows::kFrom));
  Rows::vector(from, to);
  std::memcpy(dst, to, static_cast<std::size_t>(count * Rows::kTo));
}

// The last vector of a row overlaps the one before it.
template <class Rows>
CONVOY_AVX2 void row(const Bytes* src, Bytes* dst, std::int64_t count) {
  constexpr std::int64_t kVector = 32 / Rows::kTo;  // elements
  if (count >= kVector) {
    const Bytes* const last_src = src + (count - kVector) * Rows::kFrom;
    Bytes* const last_dst = dst + (count - kVector) * Rows::kTo;
    for (; dst < last_dst; src += kVector * Rows::kFrom, dst += 32) Rows::vector(src, dst);
    Rows::vector(last_src, last_dst);
  } else if (count > 0) {
    end_of_row<Rows>(src, dst, count);
  }
}

// Rows of `bytes`, each followed by zeros.
void narrow_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows,
                 std::int64_t bytes, std::int64_t zeros) {
  const std::int64_t all = bytes + zeros;
  if (bytes % 4 == 0 && zeros > 0 && (all == 16 || all % 32 == 0)) {
    const __m256i lane = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(bytes)), lane);
    const __m256i high = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(bytes) - 32), lane);
    for (std::int64_t i = 0; i < rows; ++i, src += from, dst += to) {
      const auto* words = reinterpret_cast<const int*>(src);
      if (all == 16) {
        store16(dst, _mm_maskload_epi32(words, low_half(low)));
        continue;
      }
      store32(dst, _mm256_maskload_epi32(words, low));
      if (all == 64) store32(dst + 32, _mm256_maskload_epi32(words + 8, high));
    }
    return;
  }
  if (zeros == 0 && bytes % 32 == 0) {
    for (std::int64_t i = 0; i < rows; ++i, src += from, dst += to) {
      for (std::int64_t b = 0; b < bytes; b += 32) store32(dst + b, load32(src + b));
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i, src += from, dst += to) {
    std::int64_t b = 0;
    for (; b + 8 <= bytes; b += 8) std::memcpy(dst + b, src + b, 8);
    for (; b + 4 <= bytes; b += 4) std::memcpy(dst + b, src + b, 4);
    for (; b < bytes; ++b) dst[b] = src[b];
    for (; b + 4 <= all; b += 4) std::memset(dst + b, 0, 4);
    for (; b < all; ++b) dst[b] = Bytes{0};
  }
}

// Rows of fewer than 16 bytes, where dst's lie side by side or have nothing between them that counts: each is written
// with what lies behind it in src, over which the next one is written.
void short_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows,
                std::int64_t bytes) {
  std::int64_t i = 0;
  const std::int64_t src_end = (rows - 1) * from + bytes, dst_end = (rows - 1) * to + bytes;
  for (; i * from + 16 <= src_end && i * to + 16 <= dst_end; ++i) store16(dst + i * to, load16(src + i * from));
  narrow_rows(src + i * from, from, dst + i * to, to, rows - i, bytes, 0);
}

// ---- pieces with channels apart on one side

// Asks for rows that are read or (kWrite) written next. With 16 of them the processor doesn't foresee that by itself.
template <int kWrite>
CONVOY_AVX2 void prefetch(const Bytes* rows, std::int64_t apart, std::int64_t count, std::int64_t bytes) {
  for (std::int64_t i = 0; i < count; ++i, rows += apart) {
    for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(rows + b, kWrite, 3);
  }
}

template <int E>
void tile_to_positions(const Bytes* block, std::int64_t channels, Bytes* dst, std::int64_t position) {
  for (; channels >= 16; channels -= 16, block += 16 * kRow, dst += 16 * E) to_positions<E, 16>(block, dst, position);
  if (channels > 0) to_positions<E, 8>(block, dst, position);
}
template <int E>
void tile_to_block(const Bytes* src, std::int64_t position, std::int64_t channels, Bytes* block) {
  for (; channels >= 16; channels -= 16, src += 16 * E, block += 16 * kRow) to_block<E, 16>(src, position, block);
  if (channels > 0) to_block<E, 8>(src, position, block);
}

// Up to a row's positions at a time go through the block, a multiple of a step; or fewer, or with a number of channels
// side by side that is no multiple of 8: those go through memory that has room for all.
template <class Rows, bool kInner>
void transpose(const Piece& piece) {
  const Piece p = piece;
  constexpr int E = kInner ? Rows::kTo : Rows::kFrom;  // of the side with channels side by side, and of the block
  constexpr std::int64_t kPart = kRow / E, kTile = kStep / E;
  alignas(64) Bytes block[kMostBytes / E * kRow], few[kPart * kMostBytes];
  const bool room = p.padded % 8 == 0;
  const std::int64_t channels = (p.padded + 7) / 8 * 8;
  const std::int64_t bytes = p.padded * E;
  const bool may_spill = bytes < 16 && (!kInner || p.dst_position == bytes);
  const auto few_rows = [&](const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows) {
    if (may_spill) return short_rows(src, from, dst, to, rows, bytes);
    narrow_rows(src, from, dst, to, rows, bytes, 0);
  };
  if (kInner && p.channels < channels) {
    std::memset(block + p.channels * kRow, 0, static_cast<std::size_t>((channels - p.channels) * kRow));
  }
  for (std::int64_t at = 0, count = 0; at < p.positions; at += count) {
    count = p.positions - at < kPart ? p.positions - at : kPart;
    // Of a short row whole tiles first, so that its end is one, too.
    if (count < kPart && at == 0 && count > kTile) count = count / kTile * kTile;
    const std::int64_t tiles = (count + kTile - 1) / kTile;
    if (tiles * kTile <= p.positions && count < tiles * kTile) {  // the end: some positions again
      at -= tiles * kTile - count;
      count = tiles * kTile;
    }
    const bool direct = room && count == tiles * kTile;
    const Bytes* src = p.src + at * p.src_position;
    Bytes* dst = p.dst + at * p.dst_position;
    if constexpr (kInner) {
      for (std::int64_t c = 0; c < p.channels; ++c) row<Rows>(src + c * p.src_channel, block + c * kRow, count);
      if (at + count < p.positions) {
        prefetch<0>(src + count * Rows::kFrom, p.src_channel, p.channels, kPart * Rows::kFrom);
      }
      Bytes* to = direct ? dst : few;
      const std::int64_t position = direct ? p.dst_position : channels * E;
      for (std::int64_t t = 0; t < tiles; ++t) {
        tile_to_positions<E>(block + t * kStep, channels, to + t * kTile * position, position);
      }
      if (!direct) few_rows(few, position, dst, p.dst_position, count);
    } else {
      if (!direct) few_rows(src, p.src_position, few, channels * E, count);
      if (at + count < p.positions) {
        prefetch<1>(dst + count * Rows::kTo, p.dst_channel, p.channels, kPart * Rows::kTo);
      }
      const Bytes* from = direct ? src : few;
      const std::int64_t position = direct ? p.src_position : channels * E;
      for (std::int64_t t = 0; t < tiles; ++t) {
        tile_to_block<E>(from + t * kTile * position, position, channels, block + t * kStep);
      }
      for (std::int64_t c = 0; c < p.channels; ++c) row<Rows>(block + c * kRow, dst + c * p.dst_channel, count);
    }
  }
}

// ---- pieces with channels side by side on both sides

template <int kBytes>
void zero_rows(Bytes* dst, std::int64_t to, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i, dst += to) std::memset(dst, 0, kBytes);
}

template <class Rows, int kWidth>
void regroup_whole(const Piece& piece) {
  const Piece p = piece;
  for (std::int64_t i = 0; i < p.positions; ++i) {
    const Bytes* src = p.src + i * p.src_position;
    Bytes* dst = p.dst + i * p.dst_position;
    if constexpr (kWidth * Rows::kTo >= 32) {
      constexpr int kVector = 32 / Rows::kTo;
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; c += kVector) Rows::vector(src + c * Rows::kFrom, dst + c * Rows::kTo);
    } else if constexpr (Rows::kFrom == Rows::kTo) {
      std::memcpy(dst, src, kWidth * Rows::kTo);
    } else {
      static_assert(kWidth == 8);
      Rows::half(src, dst);
    }
  }
}

template <class Rows>
void regroup(const Piece& p) {
  if (p.channels == 16) return regroup_whole<Rows, 16>(p);
  const std::int64_t zeros = (p.padded - p.channels) * Rows::kTo;
  if (p.channels == 8) {
    regroup_whole<Rows, 8>(p);
    if (zeros > 0) zero_rows<8 * Rows::kTo>(p.dst + 8 * Rows::kTo, p.dst_position, p.positions);
    return;
  }
  if (p.channels == 0 && p.padded == 8) return zero_rows<8 * Rows::kTo>(p.dst, p.dst_position, p.positions);
  if constexpr (Rows::kFrom == Rows::kTo) {
    narrow_rows(p.src, p.src_position, p.dst, p.dst_position, p.positions, p.channels * Rows::kTo, zeros);
  } else {
    for (std::int64_t i = 0; i < p.positions; ++i) {
      Bytes* dst = p.dst + i * p.dst_position;
      row<Rows>(p.src + i * p.src_position, dst, p.channels);
      std::memset(dst + p.channels * Rows::kTo, 0, static_cast<std::size_t>(zeros));
    }
  }
}

template <class Rows>
void move_as(const Piece& p) {
  const bool from_inner = p.src_channel == Rows::kFrom, to_inner = p.dst_channel == Rows::kTo;
  if (from_inner && to_inner) {
    regroup<Rows>(p);
  } else if (to_inner) {
    transpose<Rows, true>(p);
  } else {
    transpose<Rows, false>(p);
  }
}

void move(DataType from, DataType to, const Piece& p) {
  if (from != to) {
    if (from == DataType::f16) return move_as<Widen<avx2::F16>>(p);
    if (from == DataType::bf16) return move_as<Widen<avx2::Bf16>>(p);
    return to == DataType::f16 ? move_as<Narrow<avx2::F16>>(p) : move_as<Narrow<avx2::Bf16>>(p);
  }
  switch (size_of(from)) {
    case 1:
      return move_as<Same<1>>(p);
    case 2:
      return move_as<Same<2>>(p);
    case 4:
      return move_as<Same<4>>(p);
    default:
      return kPortable.move(from, to, p);
  }
}

void convert(DataType from, const Bytes* src, DataType to, Bytes* dst, std::int64_t count) {
  if (from == DataType::f16) return row<Widen<avx2::F16>>(src, dst, count);
  if (from == DataType::bf16) return row<Widen<avx2::Bf16>>(src, dst, count);
  to == DataType::f16 ? row<Narrow<avx2::F16>>(src, dst, count) : row<Narrow<avx2::Bf16>>(src, dst, count);
}

}  // namespace

const Kernels kAvx2 = {move, convert};

}  // namespace convoy::conversion
