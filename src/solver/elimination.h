// Bucket (variable) elimination: nodes are eliminated one by one, each leaving a table of its least cost over the
// alternatives of the neighbours that it has then. Exact; time and memory grow with the alternatives to the power of
// the induced width of the order. Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial
// Intelligence 113, 1999; Bertele and Brioschi, "Nonserial Dynamic Programming", 1972.
#pragma once

#include <cstdint>
#include <vector>

#include "solver/graph.h"

namespace convoy::solver {

struct EliminationOrder {
  std::vector<int> nodes;  // those that are present, in this order
  int width = 0;           // most neighbours that one has when it is eliminated
  double entries = 0;      // of all tables together
  double work = 0;         // entries times the alternatives of the node that is eliminated
};

// In costs looked at, as raise_bound() counts.
inline std::int64_t table_work(const EliminationOrder& order) { return static_cast<std::int64_t>(4 * order.work); }

// The better of two greedy orders: least table first, and least fill-in first. (The first alone: `quick`.)
EliminationOrder order_elimination(const Graph& graph, bool quick = false);

struct EliminationResult {
  double cost = kForbidden;  // with the graph's constant; kForbidden: there is no assignment
  std::vector<int> choice;   // of the nodes that are present
};
// `order`: of this graph. Takes about 2 bytes an entry in all, and 8 for those of tables not yet used.
EliminationResult eliminate(const Graph& graph, const EliminationOrder& order);

}  // namespace convoy::solver
