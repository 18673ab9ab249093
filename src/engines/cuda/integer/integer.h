// Convolutions of 8-bit integers where cuDNN has no engine: fprop, any layout without blocks, groups, zero points and
// epilogue. A thread computes a few channels of a pixel, from four bytes at a time where channels lie together.
#pragma once

#include "convoy/engine.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

// Engine "cuda.integer".
const Engine& integer_engine();

// Its kernel's launch; the parameters are reference_args() and out.
struct IntegerLaunch {
  KernelRequest request;
  Launch shape;
};
// With `target_sms` (0: all) the kernel does its work with any grid, for keep_within().
IntegerLaunch integer_launch(const ConvProblem& problem, int architecture, int target_sms);

}  // namespace convoy::cuda
