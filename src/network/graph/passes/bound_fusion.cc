// BatchNormalization -> Relu or Clip becomes one node, where nobody else reads what lies between: a tensor is read and
// written once in place of twice. Those behind a convolution have become part of its weights by then; the others are in
// front of one, as in DenseNet.
#include "network/graph/pass.h"
#include "network/graph/passes/activations.h"

namespace convoy::network {
namespace {

bool takes_bounds(const Node& node) {
  if (node.erased || node.desc.op != "BatchNormalization" || !node.desc.domain.empty()) return false;
  const auto training = node.desc.integer("training_mode", 0);
  return node.outputs.size() == 1 && training.ok() && *training == 0 && !node.desc.has("least") &&
         !node.desc.has("most");
}

}  // namespace

Result<int> bound_fusion(Graph& graph, const PassContext&) {
  const auto readers = graph.readers();
  int changes = 0;
  for (Node& node : graph.nodes) {
    if (!takes_bounds(node)) continue;
    const int out = node.outputs[0];
    if (readers[out].size() != 1 || graph.is_output(out)) continue;
    Node& next = graph.nodes[readers[out][0]];
    if (next.inputs[0] != out) continue;
    const auto activation = activation_of(graph, next);
    if (!activation) continue;
    const bool is_relu = activation->kind == ActivationKind::relu;
    if (!is_relu && activation->kind != ActivationKind::clip) continue;
    node.desc.attributes["least"] = is_relu ? 0.0 : activation->a;
    if (!is_relu) node.desc.attributes["most"] = activation->b;
    node.outputs[0] = next.outputs[0];
    node.sources.insert(node.sources.end(), next.sources.begin(), next.sources.end());
    next.erased = true;
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
