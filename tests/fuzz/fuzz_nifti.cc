#include "io/nifti.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static_cast<void>(convoy::io::parse_nifti({reinterpret_cast<const std::byte*>(data), size}, "fuzz"));
  return 0;
}
