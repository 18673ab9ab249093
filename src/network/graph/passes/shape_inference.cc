#include "network/graph/infer.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

// What is between a convolution and what it took over. Where that can't be known, nothing is undone.
std::shared_ptr<const Fusing> inferred(Graph& graph, const Fusing& given) {
  Fusing fusing = given;
  if (fusing.conv.fused && !(fusing.conv.fused = inferred(graph, *fusing.conv.fused))) return nullptr;
  for (Node* part : {&fusing.conv, &fusing.next}) {
    const auto knowledge = infer_node(graph, *part);
    if (!knowledge.ok() || *knowledge == Knowledge::unknown) return nullptr;
  }
  return std::make_shared<const Fusing>(std::move(fusing));
}

}  // namespace

Result<int> shape_inference(Graph& graph, const PassContext&) {
  int known = 0;
  for (Node& node : graph.nodes) {
    if (node.fused) node.fused = inferred(graph, *node.fused);
    CONVOY_TRY(const Knowledge knowledge, infer_node(graph, node));
    known += knowledge == Knowledge::known;
  }
  return known;
}

}  // namespace convoy::network
