// Which nodes of a graph are prepared together once their shapes are known (dynamic_program.h).
#pragma once

#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// Sets of nodes, each in the graph's order, in an order in which they can run: a convolution or a product with a
// constant matrix with what follows it, up to where values decide; each other node is alone. `graph` is in order.
std::vector<std::vector<int>> islands_of(const Graph& graph);

// Whether a set is prepared as a network of its own.
bool is_island(const Graph& graph, const std::vector<int>& nodes);

}  // namespace convoy::network
