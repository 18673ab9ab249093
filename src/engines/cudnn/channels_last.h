// cuDNN's engines on channels-last copies of tensors that lie otherwise, for many of its engines take, or are fast on,
// nothing else.
#pragma once

#include "convoy/engine.h"

namespace convoy::cudnn {

// Engine "cudnn.nhwc": x, w and y, where they aren't channels last, are copied into the workspace, an engine runs
// there, and what it computes is copied back. The copies are part of the prediction, the workspace and the stages. Its
// knob is the engine's index, with the best configuration that cuDNN's heuristics give it.
const Engine& channels_last_engine();

}  // namespace convoy::cudnn
