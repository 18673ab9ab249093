// Inner steps shared by the ways of selecting.
#pragma once

#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

inline DeviceKind kind_of(const PlanRequest& request) { return request.cuda ? DeviceKind::cuda : DeviceKind::cpu; }

// The engine a candidate names, when it exists, takes the problem and has these knob values; otherwise an error that
// says which of these fails.
Result<const Engine*> runnable_engine(const ConvProblem& problem, const Candidate& candidate,
                                      std::span<const Engine* const> engines, const PlanRequest& request);

// Every candidate of an engine for a problem: the product of its knobs' values, the default first. Knobs that would
// take it over 4096 are varied alone.
std::vector<Candidate> knob_product(const Engine& engine, const ConvProblem& problem, const PlanRequest& request);

}  // namespace convoy::selection
