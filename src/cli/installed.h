// Where the files for people lie that come with the command: problems/, examples/, docs/.
#pragma once

#include <string>

namespace convoy::cli {

// share/convoy of an installed Convoy or of a bundle, the source's folder for a command that was built in it; empty
// where there is neither.
std::string files_folder();

// `path`, or where there is no such thing and it begins with "problems", the one of that name in files_folder().
std::string installed_or_here(const std::string& path);

}  // namespace convoy::cli
