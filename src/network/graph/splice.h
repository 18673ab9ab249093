// A graph's nodes in the place of a node of another graph, which had it as its body.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// Appends the body's nodes to `nodes`, whose values are new ones of `graph`: constants share their memory, the body's
// inputs are `inputs` (values of `graph`; kAbsent only where the body has a constant there). Returns which values of
// `graph` the body's outputs are.
std::vector<int> splice(const Graph& body, std::span<const int> inputs, const std::string& prefix, Graph& graph,
                        std::vector<Node>& nodes);

}  // namespace convoy::network
