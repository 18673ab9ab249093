#include "io/versions.h"

#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

namespace convoy::io {

std::vector<std::pair<std::string, std::string>> library_versions() {
  // libturbojpeg 2 has no function that tells; that it opens a decoder shows it is there.
  void* decoder = tjInitDecompress();
  const std::string jpeg = decoder != nullptr ? "2.x" : "does not start";
  if (decoder != nullptr) tjDestroy(decoder);
  return {{"libpng", png_get_libpng_ver(nullptr)}, {"libturbojpeg", jpeg}, {"zlib", zlibVersion()}};
}

}  // namespace convoy::io
