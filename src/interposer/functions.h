// The functions of cuDNN that this library stands in front of (calls.cc).
#pragma once

#include <string_view>

namespace convoy::interposer {

// What a program calls instead of cuDNN's function of that name; null: cuDNN's own. Allocates nothing.
void* function_in_front(std::string_view name);

}  // namespace convoy::interposer
