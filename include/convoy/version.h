// The version of this build.
#pragma once

namespace convoy {

// "0.1.0"
const char* version();

}  // namespace convoy
