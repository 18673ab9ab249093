// What a file is that is not what was asked for, by its first bytes, and what its owner can do.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace convoy {

// How many of a file's bytes file_signature() looks at.
constexpr std::size_t kSignatureBytes = 512;

// "a Git LFS pointer, not the file itself: run 'git lfs pull' where it was cloned"; empty where the bytes are no kind
// of file that is known here. `bytes` are the file's first kSignatureBytes, or all that it has.
std::string file_signature(std::span<const std::byte> bytes);

}  // namespace convoy
