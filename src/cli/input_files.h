// Which files a person named: one, several, a folder, a pattern.
#pragma once

#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::cli {

enum class FileKind { tensor, picture, volume, unknown };
FileKind kind_of_file(const std::string& path);  // by its extension

// The files that `text` stands for, sorted: itself where it is a file (or nothing at all, which reading it will say);
// of a folder the pictures in it, or where it has none the volumes, or the tensors; of a pattern (* ? [..], which a
// shell would have expanded) what matches. `remark` gets a sentence where files of a folder were left out. Errors: a
// folder or a pattern without files.
Result<std::vector<std::string>> expand_files(const std::string& text, std::string& remark);

}  // namespace convoy::cli
