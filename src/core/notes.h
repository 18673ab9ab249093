// Notes that Convoy's own engines have besides those of convoy/engine.h.
#pragma once

#include <string_view>

namespace convoy::note {

inline constexpr std::string_view up_convert_inputs = "UP_CONVERT_INPUTS";  // narrow tensors are converted to f32

}  // namespace convoy::note
