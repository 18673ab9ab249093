// A line on the program's standard error.
#pragma once

#include <string>

namespace convoy::interposer {

// In one call of write(2), so that lines of several threads and processes don't mix.
void say(const std::string& sentence);

}  // namespace convoy::interposer
