// Conversions with AVX2. They wait for memory and for shuffles of 16-byte lanes, so that wider vectors gain little.
//
// Everything transposed is transposed by one network: N vectors, log2(N) rounds in which the vectors i and i + N/2 are
// interleaved element by element. Within a 16-byte lane, N = 16/E vectors (E: bytes of an element) of 16/E elements
// come out transposed, both lanes on their own. So what lanes are loaded with, and where they are stored to, says what
// the network does:
//   apart: a vector has 32/E positions of a channel; its lanes are 16/E positions each
//   pairs: a vector has 16 bytes of row i in one lane and of row i + 16/E in the other, and comes out as 32 bytes of a
//   row
#include <cstring>

#include "convert/kernels.h"
#include "core/avx2_elements.h"

namespace convoy::conversion {
namespace {

using Bytes = std::byte;

CONVOY_AVX2 __m128i load16(const Bytes* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 __m256i load32(const Bytes* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_AVX2 __m128i load8(const Bytes* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
CONVOY_AVX2 void store16(Bytes* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
CONVOY_AVX2 void store32(Bytes* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
CONVOY_AVX2 __m256i both(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
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
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = interleave_low<E>(v[i], v[i + N / 2]);
      next[2 * i + 1] = interleave_high<E>(v[i], v[i + N / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) v[i] = next[i];
  }
}

// ---- channels apart to side by side. kAll: all rows are there; else those from `channels` on are zeros.

// 4-byte elements: 8 channels x 4 positions.
template <bool kAll>
CONVOY_AVX2 void inner_4(const Bytes* src, std::int64_t row, Bytes* dst, std::int64_t position, std::int64_t channels) {
  __m256i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m128i low = kAll || i < channels ? load16(src + i * row) : _mm_setzero_si128();
    const __m128i high = kAll || i + 4 < channels ? load16(src + (i + 4) * row) : _mm_setzero_si128();
    v[i] = both(low, high);
  }
  network<4>(v);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) store32(dst + i * position, v[i]);
}

// 2-byte elements: 8 channels x 16 positions.
template <bool kAll>
CONVOY_AVX2 void inner_2(const Bytes* src, std::int64_t row, Bytes* dst, std::int64_t position, std::int64_t channels) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) v[i] = kAll || i < channels ? load32(src + i * row) : _mm256_setzero_si256();
  network<2>(v);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store16(dst + i * position, _mm256_castsi256_si128(v[i]));
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store16(dst + (i + 8) * position, high_half(v[i]));
}

// Bytes: 16 channels x 32 positions.
template <bool kAll>
CONVOY_AVX2 void inner_1(const Bytes* src, std::int64_t row, Bytes* dst, std::int64_t position, std::int64_t channels) {
  __m256i v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = kAll || i < channels ? load32(src + i * row) : _mm256_setzero_si256();
  network<1>(v);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store16(dst + i * position, _mm256_castsi256_si128(v[i]));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store16(dst + (i + 16) * position, high_half(v[i]));
}

// Bytes: 8 channels x 32 positions; after three rounds a lane has two positions.
template <bool kAll>
CONVOY_AVX2 void inner_1_half(const Bytes* src, std::int64_t row, Bytes* dst, std::int64_t position,
                              std::int64_t channels) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) v[i] = kAll || i < channels ? load32(src + i * row) : _mm256_setzero_si256();
  network<1>(v);
  const auto put = [&](Bytes* to, __m128i two) {
    if (position == 8) return store16(to, two);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), two);
    _mm_storeh_pd(reinterpret_cast<double*>(to + position), _mm_castsi128_pd(two));
  };
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) put(dst + 2 * i * position, _mm256_castsi256_si128(v[i]));
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) put(dst + (2 * i + 16) * position, high_half(v[i]));
}

// ---- channels side by side to apart. kAll: all are written; else only those below `channels`.

// 4-byte elements: 4 channels x 8 positions; 2-byte ones: 8 x 16; bytes: 16 x 32.
template <int E, bool kAll>
CONVOY_AVX2 void outer(const Bytes* src, std::int64_t position, Bytes* dst, std::int64_t row, std::int64_t channels) {
  constexpr int kLane = 16 / E;
  __m256i v[kLane];
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i) v[i] = both(load16(src + i * position), load16(src + (i + kLane) * position));
  network<E>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i) {
    if (kAll || i < channels) store32(dst + i * row, v[i]);
  }
}

// Bytes: 8 channels x 32 positions. What half of the network makes of nothing is not computed.
template <bool kAll>
CONVOY_AVX2 void outer_1_half(const Bytes* src, std::int64_t position, Bytes* dst, std::int64_t row,
                              std::int64_t channels) {
  __m256i v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = both(load8(src + i * position), load8(src + (i + 16) * position));
  network<1>(v);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if (kAll || i < channels) store32(dst + i * row, v[i]);
  }
}

// ---- a piece

constexpr std::int64_t kLine = 64;  // bytes of a cache line

// Calls tile(position) for all positions, `kWidth` at a time; the last time, those before the end, some of them again.
template <std::int64_t kWidth, class Tile>
CONVOY_AVX2 void each_tile(std::int64_t begin, std::int64_t end, Tile tile) {
  std::int64_t at = begin;
  for (; at + kWidth <= end; at += kWidth) tile(at);
  if (at < end) tile(end - kWidth);
}

// Positions that a tile needs at least.
template <int E, bool kInner>
constexpr std::int64_t tile_width() {
  return kInner && E == 4 ? 4 : 32 / E;
}

// Rows of channels (in nchw) may all lie in one set of the cache, which holds 8 lines: so 8 of them at a time (16 of
// bytes) are read or written line by line, before the next ones.
template <int E, bool kInner, bool kAll>
void transpose(const Piece& p) {
  constexpr std::int64_t kWidth = tile_width<E, kInner>();
  const std::int64_t row = kInner ? p.src_channel : p.dst_channel;
  const std::int64_t position = kInner ? p.dst_position : p.src_position;
  for (std::int64_t line = 0; line < p.positions; line += kLine / E) {
    // The last line begins earlier where it would be too short for a tile.
    const std::int64_t end = line + kLine / E < p.positions ? line + kLine / E : p.positions;
    const std::int64_t begin = end - line < kWidth ? end - kWidth : line;
    for (std::int64_t c = 0; c < p.padded;) {
      const std::int64_t left = p.channels - c;
      const bool half = E != 1 || p.padded - c <= 8;  // 8 channels
      const Bytes* src = p.src + c * p.src_channel;
      Bytes* dst = p.dst + c * p.dst_channel;
      if constexpr (kInner) {
        each_tile<kWidth>(
            begin, end, [&](std::int64_t at) __attribute__((always_inline)) {
              const Bytes* from = src + at * E;
              Bytes* to = dst + at * position;
              if constexpr (E == 4) {
                inner_4<kAll>(from, row, to, position, left);
              } else if constexpr (E == 2) {
                inner_2<kAll>(from, row, to, position, left);
              } else if (half) {
                inner_1_half<kAll>(from, row, to, position, left);
              } else {
                inner_1<kAll>(from, row, to, position, left);
              }
            });
        c += half ? 8 : 16;
      } else {
        each_tile<kWidth>(
            begin, end, [&](std::int64_t at) __attribute__((always_inline)) {
              const Bytes* from = src + at * position;
              Bytes* to = dst + at * E;
              if constexpr (E == 4) {
                outer<E, kAll>(from, position, to, row, left);
                outer<E, kAll>(from + 16, position, to + 4 * row, row, left - 4);
              } else if constexpr (E == 2) {
                outer<E, kAll>(from, position, to, row, left);
              } else if (half) {
                outer_1_half<kAll>(from, position, to, row, left);
              } else {
                outer<E, kAll>(from, position, to, row, left);
              }
            });
        c += half ? 8 : 16;
      }
    }
  }
}

// `kBytes` of each position; then `kZeros` bytes of zeros. The strides are copied out of `p`, which bytes that are
// written might otherwise change.
template <int kBytes, int kZeros>
CONVOY_AVX2 void copy_rows(const Piece& p) {
  const std::int64_t from = p.src_position, to = p.dst_position, positions = p.positions;
  const Bytes* src = p.src;
  Bytes* dst = p.dst;
  for (std::int64_t i = 0; i < positions; ++i, src += from, dst += to) {
    if constexpr (kBytes > 0) std::memcpy(dst, src, kBytes);
    if constexpr (kZeros > 0) std::memset(dst + kBytes, 0, kZeros);
  }
}

// Calls to memset of a few bytes would cost more than what they write.
template <int kBytes>
bool copy_rows(const Piece& p, std::int64_t zeros) {
  switch (zeros) {
    case 0:
      return copy_rows<kBytes, 0>(p), true;
    case 4:
      return copy_rows<kBytes, 4>(p), true;
    case 8:
      return copy_rows<kBytes, 8>(p), true;
    case 16:
      return copy_rows<kBytes, 16>(p), true;
    case 32:
      return copy_rows<kBytes, 32>(p), true;
    case 64:
      return copy_rows<kBytes, 64>(p), true;
    default:
      return false;
  }
}

bool regroup_rows(const Piece& p, std::int64_t bytes, std::int64_t zeros) {
  switch (bytes) {
    case 0:
      return copy_rows<0>(p, zeros);
    case 4:
      return copy_rows<4>(p, zeros);
    case 8:
      return copy_rows<8>(p, zeros);
    case 16:
      return copy_rows<16>(p, zeros);
    case 32:
      return copy_rows<32>(p, zeros);
    case 64:
      return copy_rows<64>(p, zeros);
    default:
      return false;
  }
}

void regroup(std::size_t element_bytes, const Piece& p) {
  const auto E = static_cast<std::int64_t>(element_bytes);
  const std::int64_t bytes = p.channels * E, zeros = (p.padded - p.channels) * E;
  if (regroup_rows(p, bytes, zeros)) return;
  for (std::int64_t i = 0; i < p.positions; ++i) {
    std::memcpy(p.dst + i * p.dst_position, p.src + i * p.src_position, static_cast<std::size_t>(bytes));
    std::memset(p.dst + i * p.dst_position + bytes, 0, static_cast<std::size_t>(zeros));
  }
}

// nhwc of fewer channels than a tile has goes through memory that has room for them.
constexpr std::int64_t kStaged = 256;  // positions

template <int E, bool kInner>
bool move_sized(const Piece& p) {
  if (p.positions < tile_width<E, kInner>()) return false;
  if (p.padded % 8 == 0) {
    if (p.channels == p.padded) {
      transpose<E, kInner, true>(p);
    } else {
      transpose<E, kInner, false>(p);
    }
    return true;
  }
  alignas(64) Bytes buffer[kStaged * kGroup * E];
  const std::int64_t wide = p.channels > 8 ? 16 : 8;
  for (std::int64_t at = 0, count = 0; at < p.positions; at += count) {
    const std::int64_t left = p.positions - at;  // staged() is inline, and may be another unit's
    count = left <= kStaged ? left : left - kStaged < 32 ? kStaged - 32 : kStaged;
    Piece stage = p, rest = p;
    stage.positions = rest.positions = count;
    stage.src += at * p.src_position;
    rest.dst += at * p.dst_position;
    stage.dst = buffer;
    rest.src = buffer;
    stage.dst_position = rest.src_position = wide * E;
    stage.dst_channel = rest.src_channel = E;
    if (kInner) {
      stage.padded = wide;
      transpose<E, true, false>(stage);
      regroup(E, rest);
    } else {
      regroup(E, stage);
      rest.padded = wide;
      transpose<E, false, false>(rest);
    }
  }
  return true;
}

template <int E>
bool move_sized(const Piece& p) {
  return p.src_channel != E ? move_sized<E, true>(p) : move_sized<E, false>(p);
}

void move(std::size_t element_bytes, const Piece& p) {
  const auto size = static_cast<std::int64_t>(element_bytes);
  if (p.src_channel == size && p.dst_channel == size) return regroup(element_bytes, p);
  const bool done = size == 1 ? move_sized<1>(p) : size == 2 ? move_sized<2>(p) : size == 4 ? move_sized<4>(p) : false;
  if (!done) kPortable.move(element_bytes, p);
}

// ---- types

template <class Format>
CONVOY_AVX2 void widen(const Bytes* src, Bytes* dst) {
  _mm256_storeu_ps(reinterpret_cast<float*>(dst), Format::widen(load16(src)));
}
template <class Format>
CONVOY_AVX2 void narrow(const Bytes* src, Bytes* dst) {
  store16(dst, Format::narrow(_mm256_loadu_ps(reinterpret_cast<const float*>(src))));
}

template <class Format, bool kWiden>
void convert_run(const Bytes* src, Bytes* dst, std::int64_t count) {
  constexpr std::int64_t kFrom = kWiden ? 2 : 4, kTo = kWiden ? 4 : 2;
  const auto eight = [](const Bytes* from, Bytes* to) __attribute__((always_inline)) {
    kWiden ? widen<Format>(from, to) : narrow<Format>(from, to);
  };
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) eight(src + i * kFrom, dst + i * kTo);
  if (i == count) return;
  Bytes from[8 * kFrom] = {}, to[8 * kTo];
  std::memcpy(from, src + i * kFrom, static_cast<std::size_t>((count - i) * kFrom));
  eight(from, to);
  std::memcpy(dst + i * kTo, to, static_cast<std::size_t>((count - i) * kTo));
}

void convert(DataType from, const Bytes* src, DataType to, Bytes* dst, std::int64_t count) {
  if (to == DataType::f32) {
    from == DataType::f16 ? convert_run<avx2::F16, true>(src, dst, count)
                          : convert_run<avx2::Bf16, true>(src, dst, count);
  } else {
    to == DataType::f16 ? convert_run<avx2::F16, false>(src, dst, count)
                        : convert_run<avx2::Bf16, false>(src, dst, count);
  }
}

}  // namespace

const Kernels kAvx2 = {move, convert};

}  // namespace convoy::conversion
