#include "network/graph/pass.h"

namespace convoy::network {
namespace {

bool is_identity(const Graph& graph, const Node& node, const std::vector<std::vector<int>>& readers) {
  if (!node.desc.domain.empty() || node.inputs.empty() || node.inputs[0] == kAbsent) return false;
  if (node.outputs.empty() || node.outputs[0] == kAbsent) return false;
  // Dropout's mask may be asked for; outputs that there are not stay to be refused.
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    const int output = node.outputs[i];
    if (output != kAbsent && (!readers[output].empty() || graph.is_output(output))) return false;
  }
  if (node.desc.op == "Identity") return true;
  if (node.desc.op == "Cast") {
    const Value &from = graph.values[node.inputs[0]], &to = graph.values[node.outputs[0]];
    return from.known && to.known && from.desc.type == to.desc.type;
  }
  if (node.desc.op != "Dropout") return false;
  // It may be training.
  if (const auto is_test = node.desc.integer("is_test", 1); node.desc.opset < 7 && (!is_test.ok() || *is_test == 0)) {
    return false;
  }
  if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
    const auto training = scalar_constant(graph, node.inputs[2]);
    if (!training || *training != 0) return false;
  }
  return true;
}

}  // namespace

Result<int> identity_removal(Graph& graph, const PassContext&) {
  int changes = 0;
  const auto readers = graph.readers();
  for (Node& node : graph.nodes) {
    if (!is_identity(graph, node, readers)) continue;
    graph.replace_uses(node.outputs[0], node.inputs[0]);
    node.erased = true;
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
