// For tests of programs that may not be installed.
#pragma once

#include <cstdlib>
#include <string>

namespace convoy {

inline bool is_in_path(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace convoy
