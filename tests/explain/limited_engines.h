// Engines that refuse for the reasons that own engines have none of: what is said of them is the core's text and
// theirs.
#pragma once

#include "convoy/engine.h"

namespace convoy::testing {

// Its declaration is as narrow as declarations get.
const Engine& narrow_engine();
// It declares everything and checks channels, padding and alignment itself.
const Engine& picky_engine();

}  // namespace convoy::testing
