// The problem string: whatever parses prints to a string that parses to the same problem.
#include <cstdlib>
#include <string_view>

#include "convoy/convolution.h"
#include "convoy/engine.h"
#include "convoy/selection.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto problem = convoy::parse_problem(text)) {
    auto again = convoy::parse_problem(convoy::print(*problem));
    if (!again.ok() || !(*again == *problem)) std::abort();
    static_cast<void>(convoy::flops(*problem) + convoy::bytes_moved(*problem));
  }
  if (auto candidate = convoy::parse_candidate(text)) {
    auto again = convoy::parse_candidate(convoy::print(*candidate));
    if (!again.ok() || !(*again == *candidate)) std::abort();
  }
  static_cast<void>(convoy::parse_rules(text));
  return 0;
}
