#pragma once

#include <string_view>

#include "convoy/convolution.h"

namespace convoy {

// Of name_of()'s texts. Error: another one, with those there are.
Result<MathMode> parse_math_mode(std::string_view text);

}  // namespace convoy
