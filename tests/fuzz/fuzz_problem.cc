// The problem string: whatever parses prints to a string that parses to the same problem.
#include <cstdlib>
#include <string_view>

#include "convoy/convolution.h"
#include "convoy/engine.h"
#include "convoy/selection.h"
#include "fuzz/fuzz.h"

void convoy::fuzz::problem(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (auto problem = parse_problem(text)) {
    auto again = parse_problem(print(*problem));
    if (!again.ok() || !(*again == *problem)) std::abort();
    static_cast<void>(flops(*problem) + bytes_moved(*problem));
  }
  if (auto candidate = parse_candidate(text)) {
    auto again = parse_candidate(print(*candidate));
    if (!again.ok() || !(*again == *candidate)) std::abort();
  }
  static_cast<void>(parse_rules(text));
}
