// Conversions without vectors.
#include <cstring>

#include "convert/kernels.h"
#include "core/convert_row.h"

namespace convoy::conversion {
namespace {

template <class T>
void move_elements(const Tile& p) {
  // Rows of positions where they are side by side in dst, else the channels of each position.
  const bool by_channel = p.dst_channel != sizeof(T);
  const std::int64_t outer = by_channel ? p.channels : p.positions, inner = by_channel ? p.positions : p.padded;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t c = by_channel ? o : i, at = by_channel ? i : o;
      T value = 0;
      if (c < p.channels) std::memcpy(&value, p.src + p.src_offset(c) + at * p.src_position, sizeof(T));
      std::memcpy(p.dst + p.dst_offset(c) + at * p.dst_position, &value, sizeof(T));
    }
  }
}

void convert_elements(DataType from, DataType to, const Tile& p) {
  const auto from_size = static_cast<std::int64_t>(size_of(from)), to_size = static_cast<std::int64_t>(size_of(to));
  for (std::int64_t c = 0; c < p.channels; ++c) {
    convert_row(from, p.src + p.src_offset(c), p.src_position / from_size, to, p.dst + p.dst_offset(c),
                p.dst_position / to_size, p.positions);
  }
  if (p.dst_channel != to_size || p.padded == p.channels) return;
  for (std::int64_t c = p.channels; c < p.padded; ++c) {
    for (std::int64_t i = 0; i < p.positions; ++i) {
      std::memset(p.dst + p.dst_offset(c) + i * p.dst_position, 0, static_cast<std::size_t>(to_size));
    }
  }
}

void move(DataType from, DataType to, const Tile& tile) {
  if (from != to) return convert_elements(from, to, tile);
  switch (size_of(from)) {
    case 1:
      return move_elements<std::uint8_t>(tile);
    case 2:
      return move_elements<std::uint16_t>(tile);
    case 4:
      return move_elements<std::uint32_t>(tile);
    default:
      return move_elements<std::uint64_t>(tile);
  }
}

void convert(DataType from, const std::byte* src, DataType to, std::byte* dst, std::int64_t count) {
  convert_row(from, src, 1, to, dst, 1, count);
}

}  // namespace

const Kernels kPortable = {move, convert};

}  // namespace convoy::conversion
