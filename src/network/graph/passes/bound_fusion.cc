// BatchNormalization -> Relu or Clip becomes one node, where nobody else reads what lies between: a tensor is read and
// written once in place of twice. Those behind a convolution have become part of its weights by then; the others are in
// front of one, as in DenseNet.
#include "network/graph/pass.h"
#include "network/graph/passes/activations.h"
#include "network/graph/passes/take_over.h"

namespace convoy::network {
namespace {

bool takes_bounds(const Node& node) {
  if (node.desc.op != "BatchNormalization" || !node.desc.domain.empty()) return false;
  const auto training = node.desc.integer("training_mode", 0);
  return node.outputs.size() == 1 && training.ok() && *training == 0 && !node.desc.has("least") &&
         !node.desc.has("most");
}

}  // namespace

Result<int> bound_fusion(Graph& graph, const PassContext&) {
  return take_over_readers(graph, takes_bounds, [&](Node& node, const Node& next) {
    if (next.inputs[0] != node.outputs[0]) return false;
    const auto activation = activation_of(graph, next);
    if (!activation) return false;
    const bool is_relu = activation->kind == ActivationKind::relu;
    if (!is_relu && activation->kind != ActivationKind::clip) return false;
    node.desc.attributes["least"] = is_relu ? 0.0 : activation->a;
    if (!is_relu) node.desc.attributes["most"] = activation->b;
    return true;
  });
}

}  // namespace convoy::network
