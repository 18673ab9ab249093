#pragma once

#include <string_view>

#include "convoy/convolution.h"

namespace convoy {

// Of name_of()'s texts. Error: "'fast' is not one of ...".
Result<MathMode> parse_math_mode(std::string_view text);

}  // namespace convoy
