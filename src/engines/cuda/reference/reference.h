// The oracle on the device: a naive kernel for every problem, double accumulation, checked against the CPU's oracle.
#pragma once

#include "convoy/engine.h"

namespace convoy::cuda {

// Engine "cuda.reference".
const Engine& reference_engine();

}  // namespace convoy::cuda
