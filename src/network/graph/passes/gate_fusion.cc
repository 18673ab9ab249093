// Mul by a tensor [N, C, 1, 1] -> 1x1 convolution becomes one step, as squeeze and excitation ends: the convolution
// multiplies what it reads. It runs behind conv_fusion, so that the gate is the first of a convolution's fusions to be
// undone: few engines take one (cuda.gemm).
#include <algorithm>
#include <utility>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

bool is_pixelwise(const Graph& graph, const Node& node) {
  const ConvForm* const form = conv_form(node);
  if (form == nullptr || !form->is_float() || form->transposed || !node.conv || node.fusion.gate != kAbsent)
    return false;
  const ConvInputs inputs = conv_inputs(node);
  if (inputs.bias != kAbsent && graph.constant_of(inputs.bias) == nullptr) return false;  // it may be the processor's
  const ConvProblem& problem = node.conv->problem;
  const auto all = [](const Dims& dims, std::int64_t value, std::ptrdiff_t from = 0) {
    return std::all_of(dims.begin() + from, dims.end(), [&](std::int64_t dim) { return dim == value; });
  };
  return all(problem.w.dims, 1, 2) && problem.groups == 1 && all(problem.stride, 1) && all(problem.pre_padding, 0) &&
         all(problem.post_padding, 0);
}

// The index of a Mul's gate among its two inputs; kAbsent: it is no product with one.
int gate_of(const Graph& graph, const Node& mul) {
  if (mul.desc.op != "Mul" || !mul.desc.domain.empty() || mul.desc.opset < 7 || mul.inputs.size() != 2) return kAbsent;
  const auto is_computed = [&](int value) {
    return value != kAbsent && graph.values[value].known && !graph.values[value].constant;
  };
  if (!std::ranges::all_of(mul.inputs, is_computed)) return kAbsent;
  for (const int index : {0, 1}) {
    const TensorDesc& gate = graph.values[mul.inputs[index]].desc;
    const TensorDesc& data = graph.values[mul.inputs[1 - index]].desc;
    if (data.rank() < 3 || gate.type != data.type || gate.dims == data.dims) continue;
    Dims expected(data.dims.size(), 1);
    std::copy_n(data.dims.begin(), 2, expected.begin());
    if (gate.dims == expected) return index;
  }
  return kAbsent;
}

}  // namespace

Result<int> gate_fusion(Graph& graph, const PassContext& context) {
  if (!context.on_gpu) return 0;
  const auto producers = graph.producers();
  const auto readers = graph.readers();
  int changes = 0;
  for (Node& conv : graph.nodes) {
    if (!is_pixelwise(graph, conv)) continue;
    const int product = conv_inputs(conv).data;
    if (product == kAbsent || producers[product] == kAbsent) continue;
    if (readers[product].size() != 1 || graph.is_output(product)) continue;
    Node& mul = graph.nodes[producers[product]];
    const int gate = gate_of(graph, mul);
    if (gate == kAbsent) continue;
    Node before = conv;
    conv.inputs[kConvData] = mul.inputs[1 - gate];
    conv.fusion.gate = add_fused_input(conv, mul.inputs[gate]);
    conv.fused = std::make_shared<Fusing>(Fusing{std::move(before), mul, true});
    conv.sources.insert(conv.sources.begin(), mul.sources.begin(), mul.sources.end());
    mul.erased = true;
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
