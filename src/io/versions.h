// The libraries that read files, as found at run time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace convoy::io {

std::vector<std::pair<std::string, std::string>> library_versions();  // name, version

}  // namespace convoy::io
