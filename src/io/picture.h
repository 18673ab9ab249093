// RGB pictures of 8 or 16 bits: PNG and JPEG in, PNG out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/file.h"

namespace convoy::io {

struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint16_t> rgb;  // height x width x 3, rows from the top
  int white = 255;                 // the largest value: 65535 where the file has 16 bits a channel
  int orientation = 1;             // how the pixels lie, as EXIF numbers it (1 to 8); 1: upright
};

// Turned and mirrored so that it is upright.
Picture upright(Picture picture);
// The same with 8 bits a channel, rounded.
Picture with_8_bits(Picture picture);

// No side may be longer than this, and no picture may claim more pixels than its file's bytes could encode.
constexpr int kMaxPictureSide = 65500;
constexpr std::int64_t kMaxPicturePixels = std::int64_t{1} << 28;

// PNG or JPEG, told apart by their first bytes. Grey becomes RGB, transparency is dropped, colour profiles are ignored,
// as most training pipelines do. The pixels are as the file has them; `orientation` says which way up they are meant.
// A file with any damage is an error.
// `name` opens every error message.
Result<Picture> decode_picture(Bytes file, const std::string& name);
Result<Picture> read_picture(const std::string& path);

Result<std::vector<std::byte>> encode_png(const Picture& picture);
Result<void> write_png(const std::string& path, const Picture& picture);

// One format each; picture.cc chooses.
Result<Picture> decode_png(Bytes file);
Result<Picture> decode_jpeg(Bytes file);

// An empty picture of this size, or an error where the limits above are exceeded. `most_per_byte` is the largest number
// of pixel bytes that one byte of such a file can stand for.
Result<Picture> allocate_picture(std::int64_t width, std::int64_t height, std::size_t file_size,
                                 std::int64_t most_per_byte);

}  // namespace convoy::io
