#include <fmt/format.h>
#include <turbojpeg.h>

#include <memory>

#include "io/picture.h"

namespace convoy::io {

Result<Picture> decode_jpeg(Bytes file) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) return Error{ErrorCode::out_of_memory, "libturbojpeg could not start"};
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const auto damaged = [&] {
    return Error{ErrorCode::corrupt, fmt::format("damaged JPEG: {}", tjGetErrorStr2(decoder.get()))};
  };
  int width = 0, height = 0, subsampling = 0, colour_space = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &width, &height, &subsampling, &colour_space) != 0) {
    return damaged();
  }
  if (colour_space == TJCS_CMYK || colour_space == TJCS_YCCK) {
    return Error{ErrorCode::unsupported, "a CMYK JPEG: convert it to RGB first"};
  }
  // A progressive file may spend a bit on an 8x8 block of each component, of which 4:1:0 has 1.25 per 64 pixels.
  CONVOY_TRY(Picture picture, allocate_picture(width, height, file.size(), 2048));
  // The slow DCT is what training pipelines decode with. Hostile progressive files can hold thousands of scans.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), bytes, file.size(), picture.rgb.data(), width, 0, height, TJPF_RGB, flags) != 0) {
    return damaged();
  }
  return picture;
}

}  // namespace convoy::io
