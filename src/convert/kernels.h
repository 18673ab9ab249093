// What a conversion is made of: pieces of up to 16 channels, and rows of elements. One set of functions an instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::conversion {

// At most so many channels in a piece.
constexpr std::int64_t kGroup = 16;

// `channels` x `positions` elements of one sample. On each side one of the two strides (in bytes) is the size of an
// element: channels lie side by side, or apart. Where they lie side by side on one side only, that side has room for
// `padded` of them: in dst those from `channels` on become zeros, in src they are there to be read, and don't count.
// Where they do on both, dst has that room.
struct Piece {
  const std::byte* src;
  std::int64_t src_channel, src_position;
  std::byte* dst;
  std::int64_t dst_channel, dst_position;
  std::int64_t channels, padded;  // 0 <= channels <= padded <= kGroup; channels >= 1 but where both are side by side
  std::int64_t positions;
};

// How many of the positions that are left go through memory with room for `room` of them, so that no few remain for the
// last time, too few for vectors.
constexpr std::int64_t staged(std::int64_t room, std::int64_t left) {
  return left <= room ? left : left - room < 32 ? room - 32 : room;
}

struct Kernels {
  // Elements of 1, 2, 4 or 8 bytes.
  void (*move)(std::size_t element_bytes, const Piece& piece);
  // f32 <-> bf16, f16, as store_from_double does it. src and dst don't overlap.
  void (*convert)(DataType from, const std::byte* src, DataType to, std::byte* dst, std::int64_t count);
};

extern const Kernels kPortable;
extern const Kernels kAvx2;

}  // namespace convoy::conversion
