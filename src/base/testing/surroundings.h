// For tests: programs that may not be installed, limits on time.
#pragma once

#include <cstdlib>
#include <string>

namespace convoy {

inline bool is_in_path(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

// How many times as long a program that sanitizers watch may take.
constexpr int slowdown() {
#if defined(__SANITIZE_ADDRESS__)
  return 6;
#else
  return 1;
#endif
}

}  // namespace convoy
