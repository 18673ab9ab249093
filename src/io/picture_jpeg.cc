#include <fmt/format.h>
#include <turbojpeg.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "io/exif.h"
#include "io/picture.h"

namespace convoy::io {

Result<Picture> decode_jpeg(Bytes file) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) return Error{ErrorCode::out_of_memory, "libturbojpeg could not start"};
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const auto damaged = [&](const std::string& why) {
    // libjpeg's own words ("could not determine subsampling type") hide the usual cause.
    constexpr std::byte kEnd[] = {std::byte{0xff}, std::byte{0xd9}};
    const bool ends = std::find_end(file.begin(), file.end(), std::begin(kEnd), std::end(kEnd)) != file.end();
    return Error{ErrorCode::corrupt,
                 ends ? fmt::format("damaged JPEG: {}", why)
                      : fmt::format("damaged JPEG: it is cut off, {} bytes have no end marker ({})", file.size(), why)};
  };
  int width = 0, height = 0, subsampling = 0, colour_space = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &width, &height, &subsampling, &colour_space) != 0) {
    return damaged(tjGetErrorStr2(decoder.get()));
  }
  if (width < 1 || height < 1) return damaged("no size of a picture in it");
  if (colour_space == TJCS_CMYK || colour_space == TJCS_YCCK) {
    return Error{ErrorCode::unsupported, "a CMYK JPEG: convert it to RGB first"};
  }
  // A progressive file may spend a bit on an 8x8 block of each component, of which 4:1:0 has 1.25 per 64 pixels.
  CONVOY_TRY(Picture picture, allocate_picture(width, height, file.size(), 2048));
  // The slow DCT is what training pipelines decode with. Hostile progressive files can hold thousands of scans.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  std::vector<std::uint8_t> rgb(picture.rgb.size());
  if (tjDecompress2(decoder.get(), bytes, file.size(), rgb.data(), width, 0, height, TJPF_RGB, flags) != 0) {
    return damaged(tjGetErrorStr2(decoder.get()));
  }
  std::copy(rgb.begin(), rgb.end(), picture.rgb.begin());
  picture.orientation = jpeg_orientation(file);
  return picture;
}

}  // namespace convoy::io
