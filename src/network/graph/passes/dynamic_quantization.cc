// Dynamic quantization, as ONNX Runtime's tool writes it: ConvInteger -> Cast to f32 -> Mul by x_scale*w_scale,
// computed in each run. The convolution takes over Cast and Mul; the float bias and the activation behind stay steps of
// their own.
#include <algorithm>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/quantization.h"

namespace convoy::network {
namespace {

// Whether the factor is one value, or one per channel (dim 1) of a tensor of `rank` dims.
bool is_per_channel(const Value& factor, int rank, std::int64_t channels) {
  if (!factor.known || factor.desc.type != DataType::f32 || factor.desc.rank() > rank) return false;
  const Dims& dims = factor.desc.dims;
  const int offset = rank - static_cast<int>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && !(static_cast<int>(i) + offset == 1 && dims[i] == channels)) return false;
  }
  return true;
}

}  // namespace

Result<int> dynamic_quantization(Graph& graph, const PassContext& context) {
  QuantizedGraph quantized(graph);
  int changes = 0;
  for (Node& conv : graph.nodes) {
    const ConvForm* const form = conv_form(conv);
    if (form == nullptr || !form->integer || form->requantizes || conv.fusion.scales != kAbsent) continue;
    if (!is_inferred(graph, conv)) continue;
    Node* cast = quantized.only_reader(conv.outputs[0]);
    if (cast == nullptr || cast->desc.op != "Cast" || !cast->desc.domain.empty()) continue;
    if (!is_inferred(graph, *cast)) continue;
    const Value& real = graph.values[cast->outputs[0]];
    Node* mul = quantized.only_reader(cast->outputs[0]);
    if (mul == nullptr || mul->desc.op != "Mul" || !mul->desc.domain.empty() || mul->desc.opset < 7) continue;
    if (!is_inferred(graph, *mul) || real.desc.type != DataType::f32 || real.desc.rank() < 3) continue;
    const int factor = mul->inputs[mul->inputs[0] == cast->outputs[0] ? 1 : 0];
    if (!is_per_channel(graph.values[factor], real.desc.rank(), real.desc.dims[1])) continue;
    if (graph.values[mul->outputs[0]].desc.dims != real.desc.dims) continue;
    conv.fusion.scales = add_fused_input(conv, factor);
    conv.outputs = mul->outputs;
    for (Node* absorbed : {cast, mul}) {
      conv.sources.insert(conv.sources.end(), absorbed->sources.begin(), absorbed->sources.end());
      absorbed->erased = true;
    }
    ++changes;
  }
  graph.sweep();
  // The factor may be computed behind the convolution.
  CONVOY_CHECK(topological_order(graph, context));
  return changes;
}

}  // namespace convoy::network
