// Weights of 4 and 2 bits are bytes of the same values to whoever dequantizes them: as such the passes on quantized
// models and integer engines know them.
#include "network/graph/pass.h"
#include "network/graph/passes/quantization.h"

namespace convoy::network {
namespace {

std::optional<DataType> bytes_of(DataType type) {
  if (type == DataType::s4 || type == DataType::s2) return DataType::s8;
  if (type == DataType::u4 || type == DataType::u2) return DataType::u8;
  return std::nullopt;
}

}  // namespace

Result<int> byte_weights(Graph& graph, const PassContext&) {
  int changes = 0;
  for (Node& node : graph.nodes) {
    if (!is_dequantize(node)) continue;
    const HostTensor* const weights = graph.constant_of(node.inputs[0]);
    const HostTensor* const zero = node.inputs.size() > 2 ? graph.constant_of(node.inputs[2]) : nullptr;
    const auto type = weights == nullptr ? std::nullopt : bytes_of(weights->desc.type);
    const bool has_zero = node.inputs.size() > 2 && node.inputs[2] != kAbsent;
    if (!type || has_zero != (zero != nullptr) || (has_zero && zero->desc.type != weights->desc.type)) continue;
    for (const std::size_t i : {0, 2}) {
      if (i == 2 && !has_zero) continue;
      HostTensor bytes = *graph.constant_of(node.inputs[i]);  // the memory is shared
      bytes.desc.type = *type;
      node.inputs[i] = graph.add_constant(graph.values[node.inputs[i]].name, std::move(bytes));
    }
    ++changes;
  }
  return changes;
}

}  // namespace convoy::network
