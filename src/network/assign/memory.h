// Plans under limits on the memory of activations and weights, and those whose activations need least.
#pragma once

#include <cstdint>
#include <optional>

#include "convoy/network.h"
#include "network/assign/layout_problem.h"
#include "network/assign/layout_rules.h"

namespace convoy::network {

// First the limits become prices (solver/budgets.h); with goal.exact, or where they find no plan and `least` is asked
// for, an integer program follows. A plan's peak is what lower() gives it, gaps between buffers included: where
// it is beyond the limit by them, a lower limit is tried. Errors: unsupported: the limit can't be kept, or nothing was
// found that keeps it; it says the least that was found and the least that is proved. not_found: there is no CBC.
Result<GlobalForms> forms_within_memory(const Graph& graph, const LayoutProblem& layouts, const MemoryGoal& goal);

}  // namespace convoy::network
