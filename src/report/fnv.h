// A short hash for names of files.
#pragma once

#include <cstdint>
#include <string_view>

namespace convoy::report {

// FNV-1a: the same on every machine.
inline std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

}  // namespace convoy::report
