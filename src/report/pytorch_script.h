// A Python script of its own that makes PyTorch ask cuDNN for one convolution: sizes, strides, types and flags of a
// problem, forward and backward.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::report {

struct ScriptFacts {
  std::string failure;             // what went wrong, for the text at its head; empty: nothing is said
  std::vector<std::string> asked;  // more for it: the program, the versions
  bool benchmark = false;          // torch.backends.cudnn.benchmark
};

// The script runs the problem's own pass first (dgrad also as a transposed convolution's forward pass), then the
// forward pass and both gradients through autograd. Error (unsupported): PyTorch has no such convolution on a GPU, or
// it can't be asked for.
Result<std::string> pytorch_script(const ConvProblem& problem, const ScriptFacts& facts);

// "repro-fprop-bf16-1a2b3c4d.py": the problem decides it.
std::string pytorch_script_name(const ConvProblem& problem);

}  // namespace convoy::report
