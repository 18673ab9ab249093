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

// ---- tiles. `apart` is the stride of channels that lie apart, `position` that of positions where channels lie side by
// side. kAll: all channels are there; else those from `channels` on are read as zeros, and not written where they lie
// apart. Addresses grow by a stride from one access to the next, which leaves registers free for the vectors.

// 4-byte elements: 8 channels x 4 positions.
template <bool kAll>
CONVOY_AVX2 void inner_4(const Bytes* src, std::int64_t apart, Bytes* dst, std::int64_t position,
                         std::int64_t channels) {
  __m256i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, src += apart) {
    const __m128i low = kAll || i < channels ? load16(src) : _mm_setzero_si128();
    const __m128i high = kAll || i + 4 < channels ? load16(src + 4 * apart) : _mm_setzero_si128();
    v[i] = both(low, high);
  }
  network<4>(v);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, dst += position) store32(dst, v[i]);
}

// 2-byte elements: 8 channels x 16 positions. Bytes: 16 channels x 32 positions.
template <int E, bool kAll>
CONVOY_AVX2 void inner_apart(const Bytes* src, std::int64_t apart, Bytes* dst, std::int64_t position,
                             std::int64_t channels) {
  constexpr int kLane = 16 / E;
  __m256i v[kLane];
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i, src += apart) v[i] = kAll || i < channels ? load32(src) : _mm256_setzero_si256();
  network<E>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i, dst += position) store16(dst, _mm256_castsi256_si128(v[i]));
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i, dst += position) store16(dst, high_half(v[i]));
}

// Bytes: 8 channels x 32 positions; after three rounds a lane has two positions.
template <bool kAll>
CONVOY_AVX2 void inner_1_half(const Bytes* src, std::int64_t apart, Bytes* dst, std::int64_t position,
                              std::int64_t channels) {
  __m256i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, src += apart) v[i] = kAll || i < channels ? load32(src) : _mm256_setzero_si256();
  network<1>(v);
  const auto put = [&](__m128i two) __attribute__((always_inline)) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), two);
    _mm_storeh_pd(reinterpret_cast<double*>(dst + position), _mm_castsi128_pd(two));
    dst += 2 * position;
  };
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) put(_mm256_castsi256_si128(v[i]));
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) put(high_half(v[i]));
}

// 4-byte elements: 4 channels x 8 positions; 2-byte ones: 8 x 16; bytes: 16 x 32.
template <int E, bool kAll>
CONVOY_AVX2 void outer(const Bytes* src, std::int64_t position, Bytes* dst, std::int64_t apart, std::int64_t channels) {
  constexpr int kLane = 16 / E;
  __m256i v[kLane];
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i, src += position) v[i] = both(load16(src), load16(src + kLane * position));
  network<E>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kLane; ++i, dst += apart) {
    if (kAll || i < channels) store32(dst, v[i]);
  }
}

// Bytes: 8 channels x 32 positions. What half of the network makes of nothing is not computed.
template <bool kAll>
CONVOY_AVX2 void outer_1_half(const Bytes* src, std::int64_t position, Bytes* dst, std::int64_t apart,
                              std::int64_t channels) {
  __m256i v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i, src += position) v[i] = both(load8(src), load8(src + 16 * position));
  network<1>(v);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, dst += apart) {
    if (kAll || i < channels) store32(dst, v[i]);
  }
}

// ---- a piece

constexpr std::int64_t kLine = 64;  // bytes of a cache line

// Positions of a tile.
template <int E, bool kInner>
constexpr std::int64_t tile_width() {
  return kInner && E == 4 ? 4 : 32 / E;
}
// Its channels.
template <int E, int kPadded>
constexpr int tile_channels() {
  return E == 1 ? kPadded : 8;
}

template <int E, bool kInner, bool kAll, int kPadded>
CONVOY_AVX2 void tile(const Bytes* src, Bytes* dst, std::int64_t apart, std::int64_t position, std::int64_t channels) {
  if constexpr (kInner) {
    if constexpr (E == 4) {
      inner_4<kAll>(src, apart, dst, position, channels);
    } else if constexpr (E == 1 && kPadded == 8) {
      inner_1_half<kAll>(src, apart, dst, position, channels);
    } else {
      inner_apart<E, kAll>(src, apart, dst, position, channels);
    }
  } else {
    if constexpr (E == 4) {
      outer<E, kAll>(src, position, dst, apart, channels);
      outer<E, kAll>(src + 16, position, dst + 4 * apart, apart, channels - 4);
    } else if constexpr (E == 1 && kPadded == 8) {
      outer_1_half<kAll>(src, position, dst, apart, channels);
    } else {
      outer<E, kAll>(src, position, dst, apart, channels);
    }
  }
}

// Rows of channels (in nchw) may all lie in one set of the cache, which holds 8 lines: so 8 of them at a time (16 of
// bytes) are read or written line by line, before the next ones. At the end a tile takes some positions again.
template <int E, bool kInner, bool kAll, int kPadded>
void transpose_padded(const Bytes* src, Bytes* dst, std::int64_t apart, std::int64_t position, std::int64_t channels,
                      std::int64_t positions) {
  constexpr std::int64_t kWidth = tile_width<E, kInner>(), kTall = tile_channels<E, kPadded>();
  constexpr std::int64_t kPart = kLine / E;  // positions in a line
  const std::int64_t src_step = kInner ? E : position, dst_step = kInner ? position : E;
  const std::int64_t src_tall = kTall * (kInner ? apart : E), dst_tall = kTall * (kInner ? E : apart);
  std::int64_t at = 0;
  for (; at + kPart <= positions; at += kPart) {
#pragma GCC unroll 2
    for (int c = 0; c < kPadded / kTall; ++c) {
#pragma GCC unroll 4
      for (int k = 0; k < kPart / kWidth; ++k) {
        tile<E, kInner, kAll, kPadded>(src + c * src_tall + k * kWidth * src_step,
                                       dst + c * dst_tall + k * kWidth * dst_step, apart, position,
                                       channels - c * kTall);
      }
    }
    src += kPart * src_step;
    dst += kPart * dst_step;
  }
  while (at < positions) {
    const std::int64_t back = at + kWidth <= positions ? 0 : at + kWidth - positions;
    for (int c = 0; c < kPadded / kTall; ++c) {
      tile<E, kInner, kAll, kPadded>(src + c * src_tall - back * src_step, dst + c * dst_tall - back * dst_step, apart,
                                     position, channels - c * kTall);
    }
    src += kWidth * src_step;
    dst += kWidth * dst_step;
    at += kWidth;
  }
}

// p.padded is 8 or 16.
template <int E, bool kInner>
void transpose(const Piece& p) {
  const std::int64_t apart = kInner ? p.src_channel : p.dst_channel;
  const std::int64_t position = kInner ? p.dst_position : p.src_position;
  const auto run = [&](auto function) { function(p.src, p.dst, apart, position, p.channels, p.positions); };
  if (p.padded == 8) {
    p.channels == 8 ? run(transpose_padded<E, kInner, true, 8>) : run(transpose_padded<E, kInner, false, 8>);
  } else {
    p.channels == 16 ? run(transpose_padded<E, kInner, true, 16>) : run(transpose_padded<E, kInner, false, 16>);
  }
}

// ---- channels side by side in both

template <int kBytes>
CONVOY_AVX2 void copy_bytes(Bytes* dst, const Bytes* src) {
  if constexpr (kBytes >= 32) {
#pragma GCC unroll 4
    for (int i = 0; i < kBytes; i += 32) store32(dst + i, load32(src + i));
  } else {
    std::memcpy(dst, src, kBytes);
  }
}

// kBytes of each position of both, kZeros more of dst.
template <int kBytes, int kZeros>
void copy_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t positions) {
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < positions; ++i, src += from, dst += to) {
    copy_bytes<kBytes>(dst, src);
    if constexpr (kZeros > 0) std::memset(dst + kBytes, 0, kZeros);
  }
}

// Pieces of any other width.
void copy_any_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t positions,
                   std::int64_t bytes, std::int64_t zeros) {
  for (std::int64_t i = 0; i < positions; ++i, src += from, dst += to) {
    std::int64_t b = 0;
    for (; b + 8 <= bytes; b += 8) copy_bytes<8>(dst + b, src + b);
    for (; b + 4 <= bytes; b += 4) copy_bytes<4>(dst + b, src + b);
    for (; b < bytes; ++b) dst[b] = src[b];
    for (; b < bytes + zeros; ++b) dst[b] = Bytes{0};
  }
}

void regroup(std::size_t element_bytes, const Piece& p) {
  const auto size = static_cast<std::int64_t>(element_bytes);
  const std::int64_t bytes = p.channels * size, zeros = (p.padded - p.channels) * size;
  const auto run = [&](auto function) { function(p.src, p.src_position, p.dst, p.dst_position, p.positions); };
  if (zeros == 0) {
    switch (bytes) {
      case 8:
        return run(copy_rows<8, 0>);
      case 16:
        return run(copy_rows<16, 0>);
      case 32:
        return run(copy_rows<32, 0>);
      case 64:
        return run(copy_rows<64, 0>);
      default:
        break;
    }
  } else if (bytes == zeros) {  // 8 channels of 16
    switch (bytes) {
      case 8:
        return run(copy_rows<8, 8>);
      case 16:
        return run(copy_rows<16, 16>);
      case 32:
        return run(copy_rows<32, 32>);
      default:
        break;
    }
  }
  copy_any_rows(p.src, p.src_position, p.dst, p.dst_position, p.positions, bytes, zeros);
}

// nhwc of fewer channels than a tile has goes through memory that has room for them.
constexpr std::int64_t kStaged = 256;  // positions

template <int E, bool kInner>
bool move_sized(const Piece& p) {
  if (p.positions < tile_width<E, kInner>()) return false;
  if (p.padded == 8 || p.padded == 16) {
    transpose<E, kInner>(p);
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
      transpose<E, true>(stage);
      regroup(E, rest);
    } else {
      regroup(E, stage);
      rest.padded = wide;
      transpose<E, false>(rest);
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
