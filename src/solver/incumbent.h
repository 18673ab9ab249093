// Good assignments without a proof: what branch and bound starts from.
#pragma once

#include <vector>

#include "solver/graph.h"
#include "solver/reductions.h"

namespace convoy::solver {

// RN, the heuristic reduction of Scholz and Eckstein (2002): where no exact reduction is left, the node with the most
// neighbours takes the alternative that is cheapest with each neighbour's cheapest. Empty where that ends with a node
// without alternatives, though there may be an assignment.
std::vector<int> reduce_heuristically(Graph graph);

// Improves an assignment until no node and no two neighbours can do better by choosing anew. Alternatives that are not
// live are replaced first. Ties: the lowest node and alternative.
void descend(const Graph& graph, std::vector<int>& choice);

}  // namespace convoy::solver
