// Filters over candidates and over plans.
#pragma once

#include <optional>

#include "convoy/selection.h"

namespace convoy::selection {

// What `filtered` says of an engine whatever the candidate and the problem.
std::optional<Refusal> engine_filtered(const EngineInfo& engine, const SelectionFilter& filter);

// Whether the filter asks for what only a plan knows.
bool needs_plan(const SelectionFilter& filter);

// What only a plan knows: its workspace, and notes that it alone has.
std::optional<Refusal> plan_filtered(const ConvProblem& problem, const Plan& plan, const SelectionFilter& filter);
std::optional<Refusal> workspace_filtered(std::size_t workspace_bytes, const SelectionFilter& filter);

}  // namespace convoy::selection
