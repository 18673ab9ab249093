#include "network/cost/caches.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "network/graph/infer.h"

namespace convoy::network {

bool stays_in_cache(const Graph& graph, const CpuFeatures& cpu) {
  const int end = static_cast<int>(graph.nodes.size());
  constexpr int kUnused = -1;
  std::vector<int> made(graph.values.size(), kUnused), read(graph.values.size(), kUnused);
  // Inputs lie in memory of their own, which the next run reads again.
  for (const int value : graph.inputs) {
    made[value] = 0;
    read[value] = end;
  }
  for (int n = 0; n < end; ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node)) return false;
    for (const int value : node.inputs) {
      if (value == kAbsent) continue;
      const bool always = graph.values[value].constant || read[value] == end;
      if (graph.values[value].constant) made[value] = 0;
      read[value] = always ? end : n;
    }
    for (const int value : node.outputs) {
      if (value != kAbsent) made[value] = read[value] = n;
    }
  }
  for (const int value : graph.outputs) read[value] = end;
  std::vector<std::int64_t> change(graph.nodes.size() + 2, 0);  // from each node to the next, of bytes that are alive
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (made[v] == kUnused) continue;
    const std::int64_t bytes = graph.values[v].desc.bytes();
    change[made[v]] += bytes;
    change[read[v] + 1] -= bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return *std::ranges::max_element(change) <= cpu.l2_bytes / 4 * 3;
}

void decide_caches(const Graph& graph, const CpuFeatures& cpu, SelectionOptions& selection) {
  if (selection.caches != CacheState::cold || selection.in_network) return;
  selection.in_network = true;
  if (stays_in_cache(graph, cpu)) selection.caches = CacheState::warm;
}

}  // namespace convoy::network
