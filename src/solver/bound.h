// Lower bounds by moving costs between nodes and edges (reparametrisation), which changes no assignment's cost.
#pragma once

#include <cstdint>
#include <vector>

#include "solver/graph.h"

namespace convoy::solver {

// Raises graph.constant, a lower bound of every assignment's cost while all other costs are at least 0, which they are
// afterwards. Sequential tree-reweighted message passing: Kolmogorov, "Convergent Tree-Reweighted Message Passing for
// Energy Minimization", IEEE PAMI 28, 2006; as costs that move, Werner, "A Linear Programming Approach to Max-sum
// Problem", IEEE PAMI 29, 2007. Stops after `passes` (forward and backward), when the constant reaches `upper`, or when
// a pass gains less than `least_gain` of what is missing to it. Returns how many costs it has looked at. Precondition:
// live alternatives are not forbidden, and each has a pair that is allowed by every edge.
std::int64_t raise_bound(Graph& graph, int passes, double upper, double least_gain);

// At the root of a search much may be won for all that follows.
inline constexpr int kRootPasses = 300;
inline constexpr double kRootGain = 1e-4;

// A lower bound of what assignments cost that take each alternative (by live alternative). Precondition: as raise_bound
// has left the costs.
std::vector<double> alternative_bounds(const Graph& graph, int node);

}  // namespace convoy::solver
