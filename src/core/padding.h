// Whether a convolution's sums leave out taps that read padding.
#pragma once

#include "convoy/convolution.h"

namespace convoy {

// False where every window lies inside of what it reads. dgrad's reach beyond y's edges wherever a filter has a size,
// so it counts as one that does.
bool reads_padding(const ConvProblem& problem);

}  // namespace convoy
