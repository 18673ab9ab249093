// What passes share by which a node takes over the one behind it.
#pragma once

#include "network/graph/graph.h"

namespace convoy::network {

// `node` writes what `next` wrote, and `next` goes.
inline void take_over(Node& node, Node& next) {
  node.outputs[0] = next.outputs[0];
  node.sources.insert(node.sources.end(), next.sources.begin(), next.sources.end());
  next.erased = true;
}

// For each node that takes(node), where one other alone reads its output: take_over, where absorbs(node, next) has
// given `node` what `next` did. The number of these.
template <class Takes, class Absorbs>
int take_over_readers(Graph& graph, const Takes& takes, const Absorbs& absorbs) {
  const auto readers = graph.readers();
  int changes = 0;
  for (Node& node : graph.nodes) {
    if (node.erased || !takes(node)) continue;
    const int out = node.outputs[0];
    if (readers[out].size() != 1 || graph.is_output(out)) continue;
    Node& next = graph.nodes[readers[out][0]];
    if (!absorbs(node, next)) continue;
    take_over(node, next);
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
