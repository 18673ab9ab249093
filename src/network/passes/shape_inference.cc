#include "network/infer.h"
#include "network/pass.h"

namespace convoy::network {

Result<int> shape_inference(Graph& graph, const PassContext&) {
  int known = 0;
  for (Node& node : graph.nodes) {
    CONVOY_TRY(const Knowledge knowledge, infer_node(graph, node));
    known += knowledge == Knowledge::known;
  }
  return known;
}

}  // namespace convoy::network
