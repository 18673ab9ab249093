// Admission: what may be chosen of what can run. filtered() in convoy/selection.h decides; this is what surrounds it.
#pragma once

#include <optional>

#include "convoy/selection.h"

namespace convoy::selection {

// Whether the filter asks for what only a plan knows.
bool needs_plan(const SelectionFilter& filter);

// Whether a measured candidate is right, can run the problem and passes the filter. Its workspace is known; it is
// planned only where the filter asks for notes.
bool may_be_chosen(const ConvProblem& problem, const Measurement& measurement, std::span<const Engine* const> engines,
                   const SelectionFilter& filter, const PlanRequest& request);

// Why an oracle takes no part: the filter doesn't name it, and another engine of `answers` can run the problem, or one
// of `engines` could without the request's target_sms. Nothing for other engines.
std::optional<Refusal> held_back(const ConvProblem& problem, const EngineInfo& engine,
                                 std::span<const EngineAnswer> answers, std::span<const Engine* const> engines,
                                 const SelectionFilter& filter, const PlanRequest& request);

}  // namespace convoy::selection
