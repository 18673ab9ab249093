#include "io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static_cast<void>(convoy::io::parse_npy({reinterpret_cast<const std::byte*>(data), size}, "fuzz"));
  return 0;
}
