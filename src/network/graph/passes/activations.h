// Activation nodes as epilogues of convolutions know them.
#pragma once

#include <optional>

#include "network/graph/graph.h"

namespace convoy::network {

// What a node with one data input computes, where it is an activation with known parameters.
std::optional<Activation> activation_of(const Graph& graph, const Node& node);

}  // namespace convoy::network
