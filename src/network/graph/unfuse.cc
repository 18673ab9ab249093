#include "network/graph/unfuse.h"

namespace convoy::network {

void unfuse(Graph& graph, std::span<const int> fusions) {
  std::vector<Node> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    std::vector<Node> behind;
    Node left = std::move(graph.nodes[n]);
    for (int i = 0; i < fusions[n]; ++i) {
      (left.fused->ahead ? nodes : behind).push_back(left.fused->next);
      left = Node(left.fused->conv);
    }
    nodes.push_back(std::move(left));
    nodes.insert(nodes.end(), behind.rbegin(), behind.rend());
  }
  graph.nodes = std::move(nodes);
}

}  // namespace convoy::network
