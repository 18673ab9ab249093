#include "io/exif.h"

#include <cstring>
#include <string_view>

namespace convoy::io {
namespace {

unsigned at(Bytes bytes, std::size_t i) { return std::to_integer<unsigned>(bytes[i]); }

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace

int exif_orientation(Bytes tiff) {
  const bool little = starts_with(tiff, {"II*\0", 4});
  if (!little && !starts_with(tiff, {"MM\0*", 4})) return 1;
  // A number of `size` bytes; beyond the end of the file it is 0, which no entry below takes for anything.
  const auto number = [&](std::size_t offset, std::size_t size) {
    std::size_t value = 0;
    if (offset + size > tiff.size()) return value;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | at(tiff, offset + (little ? size - 1 - i : i));
    return value;
  };
  constexpr std::size_t kEntryBytes = 12, kOrientation = 0x0112, kShort = 3;
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (number(entry, 2) != kOrientation) continue;
    const std::size_t value = number(entry + 8, 2);
    return number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

int jpeg_orientation(Bytes file) {
  constexpr unsigned kApp1 = 0xe1, kStartOfScan = 0xda;
  // A segment is 0xff, its marker, and its length, which counts the two bytes that it takes itself.
  for (std::size_t i = 2; i + 4 <= file.size() && at(file, i) == 0xff;) {
    const unsigned marker = at(file, i + 1);
    if (marker == 0xff) {  // a fill byte
      ++i;
      continue;
    }
    if (marker == kStartOfScan) break;
    const std::size_t length = at(file, i + 2) << 8 | at(file, i + 3);
    if (length < 2 || i + 2 + length > file.size()) break;
    const Bytes segment = file.subspan(i + 4, length - 2);
    constexpr std::string_view kExif{"Exif\0\0", 6};
    if (marker == kApp1 && starts_with(segment, kExif)) return exif_orientation(segment.subspan(kExif.size()));
    i += 2 + length;
  }
  return 1;
}

}  // namespace convoy::io
