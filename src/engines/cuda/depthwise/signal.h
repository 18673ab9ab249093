// Where `signal` serves, which other families leave problems to.
#pragma once

#include "engines/cuda/depthwise/shape.h"

namespace convoy::cuda {

// Signals with one filter a channel.
bool signal_fits(const DepthwiseShape& shape);

// Where no family on multiply-adds was ever faster, whatever is predicted.
bool signal_is_fastest(const DepthwiseShape& shape);

}  // namespace convoy::cuda
