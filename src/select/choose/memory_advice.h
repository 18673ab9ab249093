// What to do where a GPU's memory doesn't suffice for a plan's workspace.
#pragma once

#include <span>
#include <string>

#include "convoy/selection.h"

namespace convoy::selection {

// A sentence on the fastest other candidate, by prediction, whose workspace fits into what is free on the request's
// device now: "cudnn.eng5{k2=4} would fit: 1.0 MiB, predicted to take 1.35 times as long; ..". Plans candidates, best
// predicted first, until one fits. Empty where the device doesn't say what is free.
std::string memory_advice(const ConvProblem& problem, const Candidate& candidate,
                          std::span<const Engine* const> engines, const SelectionFilter& filter,
                          const PlanRequest& request);

}  // namespace convoy::selection
