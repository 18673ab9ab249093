#include "network/pass.h"

namespace convoy::network {

Result<int> dead_node_removal(Graph& graph, const PassContext&) {
  const auto producers = graph.producers();
  std::vector<bool> needed(graph.nodes.size(), false);
  std::vector<int> open(graph.outputs);
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    const int node = value == kAbsent ? kAbsent : producers[value];
    if (node == kAbsent || needed[node]) continue;
    needed[node] = true;
    for (int input : graph.nodes[node].inputs) open.push_back(input);
  }
  int changes = 0;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (needed[n]) continue;
    graph.nodes[n].erased = true;
    ++changes;
  }
  graph.sweep();
  // A folded or fused weight that nobody reads any more would only hold memory.
  const auto readers = graph.readers();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].constant && readers[v].empty() && !graph.is_output(static_cast<int>(v))) {
      graph.values[v].constant.reset();
      graph.values[v].known = false;
    }
  }
  return changes;
}

}  // namespace convoy::network
