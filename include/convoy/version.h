// The version of this build.
#pragma once

namespace convoy {

inline constexpr const char* version = "0.1.0";

}  // namespace convoy
