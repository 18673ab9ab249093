#include <algorithm>

#include "base/checked.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

// A constant larger than this is computed in each run instead of held: a file of a few bytes can ask for any size.
constexpr std::int64_t kMaxFoldedBytes = std::int64_t{64} << 20;

bool has_constant_inputs(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](int id) { return id == kAbsent || graph.values[id].constant.has_value(); });
}

Result<bool> fold(Graph& graph, const Node& node, const ops::Operator& op, const PassContext& context) {
  // Only shapes matter to an operator that folds from them, so its inputs may have no data: it gets null.
  const std::vector<ops::Input> inputs = inputs_of(graph, node);
  std::vector<TensorDesc> descs;
  std::vector<HostTensor> outputs;
  std::int64_t bytes = 0;
  for (int id : node.outputs) {
    if (id == kAbsent) return false;  // rare; the node runs as it is
    descs.push_back(graph.values[id].desc);
    bytes = saturating_add(bytes, descs.back().bytes());
  }
  std::int64_t input_bytes = 0;
  for (const ops::Input& input : inputs)
    input_bytes = saturating_add(input_bytes, input.present ? input.desc.bytes() : 0);
  if (bytes > kMaxFoldedBytes && bytes > input_bytes) return false;
  for (const TensorDesc& desc : descs) {
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
    outputs.push_back(std::move(tensor));
  }
  PlanRequest request;
  request.threads = context.team.size();
  request.cpu = context.cpu;
  CONVOY_TRY(const std::unique_ptr<ops::OpPlan> plan, op.plan(node.desc, inputs, descs, request));
  const auto workspace = allocate_aligned(plan->workspace_bytes());
  if (!workspace) return Error{ErrorCode::out_of_memory, "no memory for the workspace of constant folding"};
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const ops::Input& input : inputs) in.push_back(input.constant);
  for (HostTensor& tensor : outputs) out.push_back(tensor.data.get());
  CONVOY_CHECK(plan->execute(in, out, ExecContext{context.team, workspace.get(), plan->workspace_bytes()}));
  for (std::size_t i = 0; i < outputs.size(); ++i) graph.values[node.outputs[i]].constant = std::move(outputs[i]);
  return true;
}

Result<int> fold_all(Graph& graph, const PassContext& context, bool dequantize) {
  int changes = 0;
  for (Node& node : graph.nodes) {
    CONVOY_TRY(const Knowledge knowledge, infer_node(graph, node));
    if (knowledge != Knowledge::known || node.conv) continue;
    if (!dequantize && node.desc.op == "DequantizeLinear") continue;
    const ops::Operator* op = ops::find_operator(node.desc.domain, node.desc.op);
    if (op == nullptr || (!has_constant_inputs(graph, node) && (!op->folds_from_shapes() || node.desc.has("trips"))))
      continue;
    auto folded = fold(graph, node, *op, context);
    if (!folded.ok()) return folded.error().within(describe(node));
    if (!*folded) continue;
    node.erased = true;
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace

Result<int> constant_folding(Graph& graph, const PassContext& context) { return fold_all(graph, context, true); }
Result<int> constant_folding_but_dequantize(Graph& graph, const PassContext& context) {
  return fold_all(graph, context, false);
}

}  // namespace convoy::network
