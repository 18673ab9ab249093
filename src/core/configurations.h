// All configurations that there are, for those who try them.
#pragma once

#include <vector>

#include "convoy/engine.h"

namespace convoy {

// The default first. Of independent knobs beyond some thousands of combinations the default's neighbours only: a
// provider's knobs may have billions.
std::vector<KnobValues> all_of(const Configurations& configurations);

}  // namespace convoy
