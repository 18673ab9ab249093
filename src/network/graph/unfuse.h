// Undoing what the passes conv_fusion and gate_fusion put together. Which of a network's fusions are worth having is
// decided with its layouts (assign/layout_rules.h); what is lowered is the graph that is left.
#pragma once

#include <span>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// Takes nodes apart, in their place. `fusions`, by node: how many of its last ones are undone; it has so many.
void unfuse(Graph& graph, std::span<const int> fusions);

}  // namespace convoy::network
