// Depthwise convolutions (as many groups as x has channels) and their gradients, on kernels compiled for the problem:
// lanes along channels for NHWC and strided tensors, whole planes in shared memory for NCHW, sums in f32.
#pragma once

#include "convoy/engine.h"

namespace convoy::cuda {

// Engine "cuda.depthwise".
const Engine& depthwise_engine();

}  // namespace convoy::cuda
