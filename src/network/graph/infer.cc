#include "network/graph/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "network/graph/composite.h"
#include "network/graph/conv_node.h"
#include "network/graph/sequences.h"
#include "ops/operator_row.h"

namespace convoy::network {

std::vector<ops::Input> inputs_of(const Graph& graph, const Node& node) {
  std::vector<ops::Input> inputs;
  inputs.reserve(node.inputs.size());
  for (int id : node.inputs) {
    ops::Input input;
    if (id != kAbsent) {
      const Value& value = graph.values[id];
      input.present = true;
      input.desc = value.desc;
      if (value.constant) input.constant = value.constant->data.get();
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<int> value_inputs(const Node& node) {
  std::vector<int> result;
  if (const ConvForm* form = conv_form(node)) {
    result.assign(form->values.begin(), form->values.end());
  } else if (const ops::Operator* op = ops::find_operator(node.desc.domain, node.desc.op)) {
    result = op->shape_inputs(node.desc);
  } else if (const Composite* composite = find_composite(node.desc.domain, node.desc.op)) {
    result.assign(composite->constants.begin(), composite->constants.end());
  }
  std::erase_if(result, [&](int index) {
    return index < 0 || index >= static_cast<int>(node.inputs.size()) || node.inputs[index] == kAbsent;
  });
  return result;
}

bool can_infer(const Graph& graph, const Node& node) {
  if (!node.bodies.empty() || is_sequence_operator(node.desc.domain, node.desc.op)) return false;
  for (int id : node.inputs) {
    if (id != kAbsent && !graph.values[id].known) return false;
  }
  for (int index : value_inputs(node)) {
    if (!graph.values[node.inputs[index]].constant) return false;
  }
  return true;
}

bool is_static(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int id) { return id == kAbsent || graph.values[id].known; }) &&
         can_infer(graph, node);
}

namespace {

Result<void> check_outputs(const Node& node, std::span<const TensorDesc> outputs) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    if (i >= outputs.size()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("it has {} outputs, the model uses output {}", outputs.size(), i)};
    }
    CONVOY_CHECK(validate(outputs[i], fmt::format("output {}", i)));
  }
  return {};
}

}  // namespace

Result<std::vector<TensorDesc>> inferred_outputs(const Node& node, std::span<const ops::Input> inputs) {
  const ops::OperatorRow* row = ops::find_row(node.desc.domain, node.desc.op);
  if (row == nullptr) return Error{ErrorCode::unsupported, "operator not supported"};
  CONVOY_TRY(std::vector<TensorDesc> outputs, row->infer(node.desc, inputs));
  CONVOY_CHECK(check_outputs(node, outputs));
  return outputs;
}

Result<Knowledge> infer_node(Graph& graph, Node& node) {
  node.conv.reset();
  if (!can_infer(graph, node)) {
    for (int output : node.outputs) {
      if (output != kAbsent) graph.values[output].known = false;
    }
    return Knowledge::unknown;
  }
  if (const Composite* composite = find_composite(node.desc.domain, node.desc.op)) {
    CONVOY_CHECK(infer_composite(graph, node, *composite));
    return Knowledge::known;
  }
  const std::vector<ops::Input> inputs = inputs_of(graph, node);
  std::vector<TensorDesc> outputs;
  if (conv_form(node) != nullptr) {
    CONVOY_TRY(node.conv, conv_problem(node, inputs));
    outputs = {node.conv->problem.out()};
    if (auto valid = check_outputs(node, outputs); !valid.ok()) return valid.error().within(describe(node));
  } else {
    auto inferred = inferred_outputs(node, inputs);
    if (!inferred.ok()) return inferred.error().within(describe(node));
    outputs = std::move(*inferred);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    graph.values[node.outputs[i]].known = true;
    graph.values[node.outputs[i]].desc = outputs[i];
  }
  return Knowledge::known;
}

}  // namespace convoy::network
