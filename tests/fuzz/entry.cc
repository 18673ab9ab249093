// libFuzzer's entry, for the format that CONVOY_FUZZ_FORMAT names.
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  convoy::fuzz::CONVOY_FUZZ_FORMAT({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
