// What a conversion is made of: pieces of up to 16 channels, and rows of elements. One set of functions an instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::conversion {

constexpr std::int64_t kMostChannels = 16;  // of a tile

// `channels` x `positions` elements of one sample. On each side one of the two strides (in bytes) is the size of an
// element: channels lie side by side, or apart; not apart on both. Where they lie side by side on one side only, that
// side has room for `padded` of them: in dst those from `channels` on become zeros, in src they are there to be read,
// and don't count. Where they do on both, dst has that room, and each eight of them may be a block elsewhere.
struct Tile {
  const std::byte* src;
  std::int64_t src_channel, src_position;
  std::byte* dst;
  std::int64_t dst_channel, dst_position;
  std::int64_t src_eighth, dst_eighth;  // from a channel to the eighth after it
  std::int64_t channels, padded;        // 0 <= channels <= padded; channels >= 1 but where both are side by side
  std::int64_t positions;
  std::int64_t ahead = 0;  // where not 0, so many bytes further rows that are apart are asked for

  std::int64_t src_offset(std::int64_t c) const { return c / 8 * src_eighth + c % 8 * src_channel; }
  std::int64_t dst_offset(std::int64_t c) const { return c / 8 * dst_eighth + c % 8 * dst_channel; }
};

// Of one type, or f32 <-> bf16 and f32 <-> f16, as store_from_double converts.
struct Kernels {
  void (*move)(DataType from, DataType to, const Tile& tile);
  // A row of elements; two types.
  void (*convert)(DataType from, const std::byte* src, DataType to, std::byte* dst, std::int64_t count);
};

extern const Kernels kPortable;
extern const Kernels kAvx2;

}  // namespace convoy::conversion
