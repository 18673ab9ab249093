#include "io/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/file_signature.h"

namespace convoy::io {

Result<Picture> allocate_picture(std::int64_t width, std::int64_t height, std::size_t file_size,
                                 std::int64_t most_per_byte) {
  if (width < 1 || height < 1 || width > kMaxPictureSide || height > kMaxPictureSide ||
      width * height > kMaxPicturePixels) {
    return Error{ErrorCode::corrupt, fmt::format("a picture of {}x{} pixels is outside the limits (sides 1 to {}, {} "
                                                 "pixels)",
                                                 width, height, kMaxPictureSide, kMaxPicturePixels)};
  }
  // A small file may always be a small picture: headers compress to nothing.
  constexpr std::int64_t kAlwaysAllowed = 1 << 20;
  const std::int64_t bytes = width * height * 3;
  if (bytes > kAlwaysAllowed && bytes / most_per_byte > static_cast<std::int64_t>(file_size)) {
    return Error{ErrorCode::corrupt, fmt::format("the header claims {}x{} pixels, which a file of {} bytes can't hold",
                                                 width, height, file_size)};
  }
  Picture picture;
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  picture.rgb.resize(static_cast<std::size_t>(bytes));
  return picture;
}

Picture upright(Picture picture) {
  const int orientation = std::exchange(picture.orientation, 1);
  if (orientation == 1) return picture;
  Picture out = picture;
  const bool turned = orientation >= 5;  // rows become columns
  if (turned) std::swap(out.width, out.height);
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  auto to = out.rgb.begin();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x, to += 3) {
      const int column = turned ? y : x, row = turned ? x : y;
      const std::int64_t from = std::int64_t{from_bottom ? picture.height - 1 - row : row} * picture.width +
                                (from_right ? picture.width - 1 - column : column);
      std::copy_n(picture.rgb.begin() + from * 3, 3, to);
    }
  }
  return out;
}

Picture with_8_bits(Picture picture) {
  const int white = std::exchange(picture.white, 255);
  if (white == 255) return picture;
  for (std::uint16_t& value : picture.rgb) value = static_cast<std::uint16_t>((value * 255 + white / 2) / white);
  return picture;
}

Result<Picture> decode_picture(Bytes file, const std::string& name) {
  const auto starts_with = [&](const char* magic, std::size_t size) {
    return file.size() >= size && std::memcmp(file.data(), magic, size) == 0;
  };
  const std::string is = file_signature(file);
  Result<Picture> picture =
      Error{ErrorCode::corrupt, "byte 0: neither a PNG nor a JPEG file" + (is.empty() ? "" : " but " + is)};
  if (starts_with("\x89PNG\r\n\x1a\n", 8)) {
    picture = decode_png(file);
  } else if (starts_with("\xff\xd8\xff", 3)) {
    picture = decode_jpeg(file);
  }
  if (!picture.ok()) return picture.error().within(name);
  return picture;
}

Result<Picture> read_picture(const std::string& path) {
  CONVOY_TRY(const std::vector<std::byte> file, read_file(path));
  return decode_picture(file, path);
}

Result<void> write_png(const std::string& path, const Picture& picture) {
  CONVOY_TRY(const std::vector<std::byte> file, encode_png(picture));
  return write_file(path, file);
}

}  // namespace convoy::io
