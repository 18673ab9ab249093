#include "network/graph/pass.h"

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
  // A folded weight that nobody reads any more, not even where a fusion is undone, would only hold memory.
  std::vector<bool> is_read(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    std::vector<const Node*> readers = parts_of(node);
    readers.push_back(&node);
    for (const Node* reader : readers) {
      for (const int input : reader->inputs) {
        if (input != kAbsent) is_read[static_cast<std::size_t>(input)] = true;
      }
    }
  }
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].constant && !is_read[v] && !graph.is_output(static_cast<int>(v))) {
      graph.values[v].constant.reset();
      graph.values[v].known = false;
    }
  }
  return changes;
}

}  // namespace convoy::network
