// The algorithms of cuDNN's older API (cudnnConvolutionForward and its like), which cuDNN calls v7.
#pragma once

#include <vector>

#include "convoy/engine.h"

namespace convoy::cudnn {

// A row an algorithm. They need the device itself, also to say whether they take a problem. Never destroyed.
std::vector<const Engine*> legacy_engines();

}  // namespace convoy::cudnn
