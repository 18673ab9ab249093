#include <functional>
#include <queue>

#include "network/graph/pass.h"

namespace convoy::network {

// Kahn's algorithm; among nodes that are ready the one that came first in the file goes first, so that an ordered graph
// stays as it is.
Result<int> topological_order(Graph& graph, const PassContext&) {
  graph.sweep();
  const auto producers = graph.producers();
  const auto readers = graph.readers();
  std::vector<int> open(graph.nodes.size(), 0);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (int input : graph.nodes[n].inputs) open[n] += input != kAbsent && producers[input] != kAbsent;
    if (open[n] == 0) ready.push(static_cast<int>(n));
  }
  std::vector<Node> ordered;
  ordered.reserve(graph.nodes.size());
  int moved = 0;
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    moved += n != static_cast<int>(ordered.size());
    for (int output : graph.nodes[n].outputs) {
      if (output == kAbsent) continue;
      for (int reader : readers[output]) {
        if (--open[reader] == 0) ready.push(reader);
      }
    }
    ordered.push_back(std::move(graph.nodes[n]));
  }
  if (ordered.size() != graph.nodes.size()) return Error{ErrorCode::internal, "the graph has a cycle"};
  graph.nodes = std::move(ordered);
  return moved;
}

}  // namespace convoy::network
