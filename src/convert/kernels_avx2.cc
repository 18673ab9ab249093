// Conversions with AVX2. They wait for the caches and for shuffles of 16-byte lanes, so that wider vectors gain little.
//
// Channels that are apart (nchw) are rows. A step reads or writes 64 bytes (of the narrower type) of each of 8 or 16:
// as many long streams are what the processor fetches in time by itself.
#include <algorithm>
#include <cstring>

#include "convert/avx2_transpose.h"
#include "convert/kernels.h"

namespace convoy::conversion {
namespace {

using namespace avx2_steps;

// ---- rows of bytes

template <int kMove>
CONVOY_AVX2 void copy(const Bytes* src, Bytes* dst) {
  if constexpr (kMove == 32) {
    store32(dst, load32(src));
  } else {
    std::memcpy(dst, src, kMove);
  }
}
// Rows of `bytes`, kMove or more, in moves of kMove, the last of which overlaps the one before it. kBytes: where known.
template <int kMove, int kBytes = 0>
void copy_rows_by(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows,
                  std::int64_t bytes) {
  const std::int64_t last = (kBytes > 0 ? kBytes : bytes) - kMove;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (std::int64_t b = 0; b < last; b += kMove) copy<kMove>(src + i * from + b, dst + i * to + b);
    copy<kMove>(src + i * from + last, dst + i * to + last);
  }
}
void copy_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows,
               std::int64_t bytes) {
  if (bytes == 8 && to == 8) {  // two at a time
    for (; rows >= 2; rows -= 2, src += 2 * from, dst += 16) {
      store16(dst, _mm_unpacklo_epi64(load8(src), load8(src + from)));
    }
  }
  if (bytes == 64) return copy_rows_by<32, 64>(src, from, dst, to, rows, 64);
  if (bytes == 32) return copy_rows_by<32, 32>(src, from, dst, to, rows, 32);
  if (bytes == 16) return copy_rows_by<16, 16>(src, from, dst, to, rows, 16);
  if (bytes == 8) return copy_rows_by<8, 8>(src, from, dst, to, rows, 8);
  if (bytes >= 32) return copy_rows_by<32>(src, from, dst, to, rows, bytes);
  if (bytes >= 16) return copy_rows_by<16>(src, from, dst, to, rows, bytes);
  if (bytes >= 8) return copy_rows_by<8>(src, from, dst, to, rows, bytes);
  if (bytes >= 4) return copy_rows_by<4>(src, from, dst, to, rows, bytes);
  if (bytes >= 2) return copy_rows_by<2>(src, from, dst, to, rows, bytes);
  if (bytes == 1) return copy_rows_by<1>(src, from, dst, to, rows, bytes);
}

alignas(64) constexpr Bytes kZeros[64] = {};
void zero_rows(Bytes* dst, std::int64_t to, std::int64_t rows, std::int64_t bytes) {
  copy_rows(kZeros, 0, dst, to, rows, bytes);
}

// Rows of fewer than 16 bytes with nothing between them that counts: each is written with what lies behind it in src,
// over which the next one is written.
void short_rows(const Bytes* src, std::int64_t from, Bytes* dst, std::int64_t to, std::int64_t rows,
                std::int64_t bytes) {
  std::int64_t i = 0;
  const std::int64_t src_end = (rows - 1) * from + bytes, dst_end = (rows - 1) * to + bytes;
  for (; i * from + 16 <= src_end && i * to + 16 <= dst_end; ++i) store16(dst + i * to, load16(src + i * from));
  copy_rows(src + i * from, from, dst + i * to, to, rows - i, bytes);
}

// ---- pieces with channels apart on one side

template <int E, int kChannels>
Mask mask_of(std::int64_t channels) {
  if (channels == kChannels) return {_mm256_set1_epi8(-1), _mm256_set1_epi8(-1)};
  alignas(32) Bytes bytes[64];
  constexpr int kPosition = kChannels * E;
  std::memset(bytes, 0xff, 64);
  if (channels < kChannels) {
    for (int at = 0; at < 64; at += kPosition) {
      std::memset(bytes + at + channels * E, 0, static_cast<std::size_t>((kChannels - channels) * E));
    }
  }
  return {load32(bytes), load32(bytes + 32)};
}

// Asks for a line of each row.
template <int kWrite, int kChannels, class Row>
CONVOY_AVX2 void ask(Row* const* rows, std::int64_t from, std::int64_t bytes) {
  for (int i = 0; i < kChannels; ++i) {
    for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(rows[i] + from + b, kWrite, 3);
  }
}

// The last row stands in for those that are padding. The last step does some positions again.
template <class T, int kChannels>
void from_rows(const Tile& tile) {
  const Tile p = tile;
  constexpr std::int64_t kStep = 64 / T::E;
  const Mask mask = mask_of<T::E, kChannels>(p.channels);
  const Bytes* rows[kChannels];
  for (int i = 0; i < kChannels; ++i) rows[i] = p.src + std::clamp<std::int64_t>(p.channels - 1, 0, i) * p.src_channel;
  for (std::int64_t at = 0; at < p.positions; at += kStep) {
    at = std::min(at, p.positions - kStep);
    if (p.ahead > 0) ask<0, kChannels>(rows, at * T::kFrom + p.ahead, kStep * T::kFrom);
    step_from_rows<T, kChannels>(rows, at * T::kFrom, p.dst + at * p.dst_position, p.dst_position, mask);
  }
}

template <class T, int kChannels>
void to_rows(const Tile& tile) {
  const Tile p = tile;
  constexpr std::int64_t kStep = 64 / T::E;
  Bytes* rows[kChannels];
  for (int i = 0; i < kChannels; ++i) rows[i] = p.dst + std::min<std::int64_t>(i, p.channels - 1) * p.dst_channel;
  for (std::int64_t at = 0; at < p.positions; at += kStep) {
    at = std::min(at, p.positions - kStep);
    if (p.ahead > 0) ask<1, kChannels>(rows, at * T::kTo + p.ahead, kStep * T::kTo);
    step_to_rows<T, kChannels>(p.src + at * p.src_position, p.src_position, rows, at * T::kTo);
  }
}

template <class T, bool kFromRows, int kChannels>
void steps(const Tile& p) {
  if constexpr (kFromRows) {
    from_rows<T, kChannels>(p);
  } else {
    to_rows<T, kChannels>(p);
  }
}

// Of rows that lie a multiple of 4 KB apart only 8 lines are in the first cache at a time: of 16, those that the
// processor fetches early would be gone before they are used.
// Eight elements of 8 bytes are a line.
template <class T, bool kFromRows>
void whole_steps(const Tile& p) {
  if (p.padded == 8) return steps<T, kFromRows, 8>(p);
  if constexpr (T::E < 8) {
    const std::int64_t row = kFromRows ? p.src_channel : p.dst_channel;
    if ((kFromRows && T::E == 1) || (row + 32) % 4096 >= 64) return steps<T, kFromRows, 16>(p);
  }
  Tile half = p;
  half.padded = 8;
  half.channels = std::min<std::int64_t>(p.channels, 8);
  steps<T, kFromRows, 8>(half);
  half.channels = p.channels - half.channels;
  if (half.channels == 0 && !kFromRows) return;
  half.src += (half.channels == 0 ? 0 : 8) * p.src_channel;  // no row: any, for zeros
  half.dst += 8 * p.dst_channel;
  steps<T, kFromRows, 8>(half);
}

// Two to four channels of nhwc are rows of a lane each, or as many lanes side by side: every lane of the one has bytes
// of every lane of the other.
template <int E, int kChannels, bool kFromRows>
struct LaneBytes {
  alignas(16) std::int8_t of[kChannels][kChannels][16];  // [to][from]: which byte becomes each, -1: none of that lane
  constexpr LaneBytes() : of() {
    for (auto& to : of) {
      for (auto& from : to) {
        for (std::int8_t& byte : from) byte = -1;
      }
    }
    for (int channel = 0; channel < kChannels; ++channel) {
      for (int i = 0; i < 16; ++i) {
        const int inner = (i / E * kChannels + channel) * E + i % E;  // place among the lanes of nhwc
        if (kFromRows) {
          of[inner / 16][channel][inner % 16] = static_cast<std::int8_t>(i);
        } else {
          of[channel][inner / 16][i] = static_cast<std::int8_t>(inner % 16);
        }
      }
    }
  }
};

template <class T, int kChannels, bool kFromRows>
void few_rows(const Tile& tile) {
  static constexpr LaneBytes<T::E, kChannels, kFromRows> bytes;
  constexpr std::int64_t kStep = 16 / T::E;
  const Tile p = tile;
  // From one lane to the next.
  const std::int64_t from = kFromRows ? p.src_channel : kStep * T::kFrom,
                     to = kFromRows ? kStep * T::kTo : p.dst_channel;
  for (std::int64_t at = 0; at < p.positions; at += kStep) {
    at = std::min(at, p.positions - kStep);
    __m128i lanes[kChannels];
#pragma GCC unroll 4
    for (int i = 0; i < kChannels; ++i) lanes[i] = T::load(p.src + at * p.src_position + i * from);
#pragma GCC unroll 4
    for (int i = 0; i < kChannels; ++i) {
      __m128i made = _mm_setzero_si128();
#pragma GCC unroll 4
      for (int k = 0; k < kChannels; ++k) {
        const __m128i which = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.of[i][k]));
        made = _mm_or_si128(made, _mm_shuffle_epi8(lanes[k], which));
      }
      T::store(p.dst + at * p.dst_position + i * to, made);
    }
  }
}

// Whether few_rows took it.
template <class T, bool kFromRows>
bool few_channels_apart(const Tile& p) {
  const bool dense = kFromRows ? p.dst_position == p.channels * T::kTo : p.src_position == p.channels * T::kFrom;
  if (p.channels != p.padded || !dense || p.positions < 16 / T::E) return false;
  if (p.channels == 2) return few_rows<T, 2, kFromRows>(p), true;
  if (p.channels == 3) return few_rows<T, 3, kFromRows>(p), true;
  if (p.channels == 4) return few_rows<T, 4, kFromRows>(p), true;
  return false;
}

// Fewer positions than a step has, or fewer than 8 channels, go through memory that has room for a step of 8 or 16.
template <class T, bool kFromRows>
void transpose(const Tile& p) {
  constexpr std::int64_t kStep = 64 / T::E, kWidest = std::max(4, T::E), kRow = kStep * kWidest;
  const bool room = p.padded == 8 || p.padded == 16;
  if (room && p.positions >= kStep) return whole_steps<T, kFromRows>(p);
  if (few_channels_apart<T, kFromRows>(p)) return;
  alignas(64) Bytes rows[16 * kRow], positions[kStep * 16 * kWidest];
  Tile part = p;
  part.padded = p.padded > 8 ? 16 : 8;
  part.positions = kStep;
  const std::int64_t bytes = p.padded * (kFromRows ? T::kTo : T::kFrom);
  for (std::int64_t at = 0; at < p.positions; at += kStep) {
    if (p.positions > kStep) at = std::min(at, p.positions - kStep);
    const std::int64_t count = std::min(p.positions, kStep);
    const Bytes* src = p.src + at * p.src_position;
    Bytes* dst = p.dst + at * p.dst_position;
    if constexpr (kFromRows) {
      part.src = rows;
      part.src_channel = kRow;
      part.dst = positions;
      part.dst_position = part.padded * T::kTo;
      copy_rows(src, p.src_channel, rows, kRow, p.channels, count * T::kFrom);
      whole_steps<T, true>(part);
      if (bytes < 16 && p.dst_position == bytes) {
        short_rows(positions, part.dst_position, dst, bytes, count, bytes);
      } else {
        copy_rows(positions, part.dst_position, dst, p.dst_position, count, bytes);
      }
    } else {
      part.src = positions;
      part.src_position = part.padded * T::kFrom;
      part.dst = rows;
      part.dst_channel = kRow;
      if (bytes < 16) {
        short_rows(src, p.src_position, positions, part.src_position, count, bytes);
      } else {
        copy_rows(src, p.src_position, positions, part.src_position, count, bytes);
      }
      whole_steps<T, false>(part);
      copy_rows(rows, kRow, dst, p.dst_channel, p.channels, count * T::kTo);
    }
  }
}

// ---- pieces with channels side by side on both sides

template <class T>
void convert_row(const Bytes* src, Bytes* dst, std::int64_t count);

// Other numbers of channels than lanes have: put together, converted, and put where they belong.
template <class T>
void few_channels(const Tile& p) {
  constexpr std::int64_t kMost = 64;  // positions
  alignas(64) Bytes from[kMost * kMostChannels * T::kFrom], to[kMost * kMostChannels * T::kTo];
  const std::int64_t from_bytes = p.channels * T::kFrom, to_bytes = p.channels * T::kTo;
  for (std::int64_t at = 0; at < p.positions; at += kMost) {
    const std::int64_t count = std::min(kMost, p.positions - at);
    copy_rows(p.src + at * p.src_position, p.src_position, from, from_bytes, count, from_bytes);
    convert_row<T>(from, to, count * p.channels);
    copy_rows(to, to_bytes, p.dst + at * p.dst_position, p.dst_position, count, to_bytes);
  }
}

// 16 channels of bytes, of which one side has two blocks of 8: two positions by two halves are transposed.
void regroup_bytes(const Tile& p) {
  const bool src_apart = p.src_eighth != 8, dst_apart = p.dst_eighth != 8;
  const Bytes *a = p.src, *b = p.src + (src_apart ? p.src_eighth : p.src_position);
  Bytes *c = p.dst, *d = p.dst + (dst_apart ? p.dst_eighth : p.dst_position);
  const std::int64_t from = 2 * p.src_position, to = 2 * p.dst_position;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i + 2 <= p.positions; i += 2, a += from, b += from, c += to, d += to) {
    const __m128i x = load16(a), y = load16(b);
    store16(c, _mm_unpacklo_epi64(x, y));
    store16(d, _mm_unpackhi_epi64(x, y));
  }
  if (p.positions % 2 == 0) return;
  std::memcpy(c, a, 8);
  std::memcpy(c + p.dst_eighth, a + p.src_eighth, 8);
}

// Others: both blocks of a position at once, so that the other side's line is used once.
template <int kHalf>
void regroup_halves(const Tile& tile) {
  const Tile p = tile;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < p.positions; ++i) {
    const Bytes* src = p.src + i * p.src_position;
    Bytes* dst = p.dst + i * p.dst_position;
    copy<kHalf>(src, dst);
    copy<kHalf>(src + p.src_eighth, dst + p.dst_eighth);
  }
}

// A block with padding: each position is read as if it had all channels, as long as src does, and the rest masked.
// Returns how many positions that were.
template <class T, int kChannels>
std::int64_t masked_rows(const Tile& tile) {
  const Tile p = tile;
  constexpr int kBytes = kChannels * T::E;
  const std::int64_t room = (p.positions - 1) * p.src_position + (p.channels - kChannels) * T::kFrom;
  const std::int64_t count = room < 0 ? 0 : room / p.src_position + 1;
  const Mask mask = mask_of<T::E, kChannels>(p.channels);
  const Bytes* src = p.src;
  Bytes* dst = p.dst;
#pragma GCC unroll 2
  for (std::int64_t i = 0; i < count; ++i, src += p.src_position, dst += p.dst_position) {
    if constexpr (kBytes == 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), _mm_and_si128(load8(src), low_lane(mask.low)));
    } else if constexpr (kBytes == 16) {
      T::store(dst, _mm_and_si128(T::load(src), low_lane(mask.low)));
    } else {
      T::store_two(dst, _mm256_and_si256(T::load_two(src), mask.low));
      if constexpr (kBytes == 64) T::store_two(dst + 32, _mm256_and_si256(T::load_two(src + 32), mask.high));
    }
  }
  return count;
}

// Elements of 8 bytes: 8 channels at most.
template <class T>
void regroup_row(const Tile& tile) {
  std::int64_t done = 0;
  if (tile.channels > 0 && tile.channels < tile.padded && tile.padded % 8 == 0) {
    if (tile.padded == 8) {
      done = masked_rows<T, 8>(tile);
    } else if constexpr (T::E < 8) {
      done = masked_rows<T, 16>(tile);
    }
  }
  Tile rest = tile;
  rest.src += done * tile.src_position, rest.dst += done * tile.dst_position, rest.positions -= done;
  const Tile p = rest;  // const: what is stored is no part of it
  const std::int64_t bytes = p.channels * T::kTo;
  if (p.padded > p.channels) zero_rows(p.dst + bytes, p.dst_position, p.positions, p.padded * T::kTo - bytes);
  if constexpr (T::kFrom == T::kTo) {
    copy_rows(p.src, p.src_position, p.dst, p.dst_position, p.positions, bytes);
  } else {
    const auto each = [&](auto body) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (std::int64_t i = 0; i < p.positions; ++i) body(p.src + i * p.src_position, p.dst + i * p.dst_position);
    };
    if (p.channels == 16) {
      each([](const Bytes* src, Bytes* dst) __attribute__((always_inline)) { T::store_two(dst, T::load_two(src)); });
    } else if (p.channels == 8) {
      each([](const Bytes* src, Bytes* dst) __attribute__((always_inline)) { T::store(dst, T::load(src)); });
    } else {
      few_channels<T>(p);
    }
  }
}

template <class T>
void regroup(const Tile& p) {
  const bool side_by_side = p.src_eighth == 8 * T::kFrom && p.dst_eighth == 8 * T::kTo;
  if (p.padded <= 8 || (side_by_side && T::E < 8)) return regroup_row<T>(p);
  if (p.channels == 16 && T::kFrom == T::kTo) {
    const bool both_apart = p.src_eighth != 8 * T::kFrom && p.dst_eighth != 8 * T::kTo;
    return T::kFrom == 1 && !both_apart ? regroup_bytes(p) : regroup_halves<8 * T::kFrom>(p);
  }
  Tile half = p;
  half.channels = std::min<std::int64_t>(p.channels, 8);
  half.padded = 8;
  regroup_row<T>(half);
  half.src += p.channels > 8 ? p.src_eighth : 0;
  half.dst += p.dst_eighth;
  half.channels = p.channels - half.channels;
  half.padded = p.padded - 8;
  regroup_row<T>(half);
}

template <class T>
void move_as(const Tile& p) {
  const bool from_inner = p.src_channel == T::kFrom, to_inner = p.dst_channel == T::kTo;
  if (from_inner && to_inner) {
    regroup<T>(p);
  } else if (to_inner) {
    transpose<T, true>(p);
  } else {
    transpose<T, false>(p);
  }
}

void move(DataType from, DataType to, const Tile& p) {
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
      return move_as<Same<8>>(p);
  }
}

// ---- rows of elements that get another type

// The last two lanes overlap those before them. Few elements go through memory that has room for two lanes.
template <class T>
void convert_row(const Bytes* src, Bytes* dst, std::int64_t count) {
  constexpr std::int64_t kTwo = 32 / T::E;
  if (count >= kTwo) {
    const std::int64_t last = count - kTwo;
#pragma GCC unroll 4
    for (std::int64_t at = 0; at < last; at += kTwo) T::store_two(dst + at * T::kTo, T::load_two(src + at * T::kFrom));
    T::store_two(dst + last * T::kTo, T::load_two(src + last * T::kFrom));
  } else if (count > 0) {
    Bytes from[64] = {}, to[64];
    std::memcpy(from, src, static_cast<std::size_t>(count * T::kFrom));
    T::store_two(to, T::load_two(from));
    std::memcpy(dst, to, static_cast<std::size_t>(count * T::kTo));
  }
}

void convert(DataType from, const Bytes* src, DataType to, Bytes* dst, std::int64_t count) {
  if (from == DataType::f16) return convert_row<Widen<avx2::F16>>(src, dst, count);
  if (from == DataType::bf16) return convert_row<Widen<avx2::Bf16>>(src, dst, count);
  to == DataType::f16 ? convert_row<Narrow<avx2::F16>>(src, dst, count)
                      : convert_row<Narrow<avx2::Bf16>>(src, dst, count);
}

}  // namespace

const Kernels kAvx2 = {move, convert};

}  // namespace convoy::conversion
