// What is wrong with the environment variables that are Convoy's.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

// Values that don't fit, an oneDNN that doesn't serve, and names like Convoy's that are none: a sentence each, which
// begins with the variable.
std::vector<std::string> environment_warnings();

}  // namespace convoy::cli
