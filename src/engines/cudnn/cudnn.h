// cuDNN as a provider of convolutions: each of its engines is an engine here, by its index, and so is each algorithm of
// its older API.
//
//   cudnn.eng0, cudnn.eng1 ...      the engines of an operation graph (graph.h says how problems become graphs): fprop,
//                                   dgrad and wgrad in 1D to 3D with fused epilogues. The same index is another
//                                   algorithm for another pass or kind of graph.
//   knobs k2, k13 ...               cuDNN's knob types by number; -1 leaves the choice to cuDNN
//   cudnn.nhwc                      those engines on channels-last copies of the tensors (channels_last.h)
//   cudnn.legacy.fprop0 ... 7, dgrad0 ... 5, wgrad0 ... 6
//                                   cudnnConvolutionForward and its like, by algorithm; no epilogue
//
// Indices and knobs belong to a version of cuDNN, which provider_of() (core/provider.h) names: a measurement of another
// version does not count. The default knobs of an engine are those of the best configuration that cuDNN's heuristics
// give it for the problem; where they don't name it, all are -1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::cudnn {

std::span<const Engine* const> engines();

// What cuDNN's heuristics (mode A, then its fallbacks) would try, best first, for problems that aren't split. Errors:
// there is no cuDNN, or it refuses the problem.
Result<std::vector<Candidate>> heuristic_candidates(const ConvProblem& problem, const PlanRequest& request);

}  // namespace convoy::cudnn
