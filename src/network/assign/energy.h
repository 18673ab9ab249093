// Plans that go by energy, where it was measured.
#pragma once

#include "convoy/selection_options.h"
#include "network/assign/layout_problem.h"
#include "network/assign/layout_rules.h"

namespace convoy::network {

// Of any alternative.
bool knows_energy(const LayoutProblem& layouts);

// The least of time and energy as the objective weighs them, each over the least that any plan takes. Conversions, and
// steps whose energy was not measured, count as the mean power of all that were. Error: unsupported: none was.
Result<GlobalForms> forms_by_energy(const LayoutProblem& layouts, const Objective& objective);

}  // namespace convoy::network
