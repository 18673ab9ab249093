// MatMul -> Add of a constant row becomes one node, a MatMul with a third input, where nobody else reads what lies
// between: a tensor is read and written once in place of twice. That is how exporters write a linear layer on tokens.
#include <algorithm>

#include "network/graph/pass.h"
#include "network/graph/passes/take_over.h"

namespace convoy::network {
namespace {

bool takes_bias(const Graph& graph, const Node& node) {
  if (node.desc.op != "MatMul" || !node.desc.domain.empty() || node.inputs.size() != 2) return false;
  const Value& out = graph.values[node.outputs[0]];
  const auto has_rows = [&](int input) { return graph.values[input].known && graph.values[input].desc.rank() >= 2; };
  return out.known && (out.desc.type == DataType::f32 || out.desc.type == DataType::f64) &&
         std::ranges::all_of(node.inputs, has_rows);
}

// Whether it is as many numbers as a row of `out` has, or one.
bool is_row(const Graph& graph, int value, const TensorDesc& out) {
  const HostTensor* const constant = graph.constant_of(value);
  if (constant == nullptr || constant->desc.type != out.type || constant->desc.rank() < 1) return false;
  const Dims& dims = constant->desc.dims;
  return (dims.back() == out.dims.back() || dims.back() == 1) && constant->desc.elements() == dims.back();
}

}  // namespace

Result<int> matmul_bias(Graph& graph, const PassContext& context) {
  if (context.on_gpu) return 0;  // its products have none
  return take_over_readers(
      graph, [&](const Node& node) { return takes_bias(graph, node); },
      [&](Node& node, const Node& next) {
        const Value& out = graph.values[node.outputs[0]];
        if (next.desc.op != "Add" || !next.desc.domain.empty() || next.desc.opset < 7 || next.inputs.size() != 2) {
          return false;
        }
        const int added = next.inputs[next.inputs[0] == node.outputs[0] ? 1 : 0];
        if (added == kAbsent || !is_row(graph, added, out.desc)) return false;
        // A row of higher rank would have added dims.
        const Value& sum = graph.values[next.outputs[0]];
        if (!sum.known || sum.desc.dims != out.desc.dims) return false;
        node.inputs.push_back(added);
        node.desc.attributes["bias"] = std::int64_t{1};
        return true;
      });
}

}  // namespace convoy::network
