// Whole files in and out, with errors that name the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::io {

using Bytes = std::span<const std::byte>;

// The contents of a regular file (not_found where there is none, invalid_argument for a folder or a device).
Result<std::vector<std::byte>> read_file(const std::string& path);

// Writes to a temporary file beside `path` and renames it, so that a reader never sees half a file. internal: the disk
// is full or broken, or nobody reads the pipe.
Result<void> write_file(const std::string& path, Bytes bytes);

// Makes a folder and its parents where they are missing.
Result<void> make_folder(const std::string& path);

// "a/b/cat.PNG" -> "png"; for a compressed volume "nii.gz".
std::string lower_extension(const std::string& path);

}  // namespace convoy::io
