// The build id that a linker gave an ELF file: what its separate debug file is found by.
#pragma once

#include <string>

namespace convoy::io {

// In hexadecimal; empty where the file has none, is no 64-bit ELF file of this machine's byte order, or can't be read.
std::string build_id(const std::string& path);

}  // namespace convoy::io
