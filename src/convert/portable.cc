// Conversions without vectors.
#include <cstring>

#include "convert/kernels.h"
#include "core/convert_row.h"

namespace convoy::conversion {
namespace {

template <class T>
void move_elements(const Piece& p) {
  // Rows of positions where they are side by side in dst, else the channels of each position.
  const bool by_channel = p.dst_channel != sizeof(T);
  const std::int64_t outer = by_channel ? p.channels : p.positions, inner = by_channel ? p.positions : p.padded;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t c = by_channel ? o : i, at = by_channel ? i : o;
      T value = 0;
      if (c < p.channels) std::memcpy(&value, p.src + c * p.src_channel + at * p.src_position, sizeof(T));
      std::memcpy(p.dst + c * p.dst_channel + at * p.dst_position, &value, sizeof(T));
    }
  }
}

void move(std::size_t element_bytes, const Piece& piece) {
  switch (element_bytes) {
    case 1:
      return move_elements<std::uint8_t>(piece);
    case 2:
      return move_elements<std::uint16_t>(piece);
    case 4:
      return move_elements<std::uint32_t>(piece);
    default:
      return move_elements<std::uint64_t>(piece);
  }
}

void convert(DataType from, const std::byte* src, DataType to, std::byte* dst, std::int64_t count) {
  convert_row(from, src, 1, to, dst, 1, count);
}

}  // namespace

const Kernels kPortable = {move, convert};

}  // namespace convoy::conversion
