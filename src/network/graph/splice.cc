#include "network/graph/splice.h"

namespace convoy::network {

std::vector<int> splice(const Graph& body, std::span<const int> inputs, const std::string& prefix, Graph& graph,
                        std::vector<Node>& nodes) {
  std::vector<int> there(body.values.size(), kAbsent);
  for (std::size_t i = 0; i < body.inputs.size(); ++i) there[body.inputs[i]] = inputs[i];
  const auto value_of = [&](int id) {
    if (id == kAbsent) return kAbsent;
    const Value& value = body.values[id];
    if (value.constant && (there[id] == kAbsent || !graph.values[there[id]].constant)) {
      there[id] = graph.add_constant(prefix + value.name, *value.constant);
    } else if (there[id] == kAbsent) {
      there[id] = graph.add_value(prefix + value.name);
    }
    return there[id];
  };
  for (Node node : body.nodes) {
    node.desc.name.insert(0, prefix);
    for (std::string& source : node.sources) source.insert(0, prefix);
    for (int& input : node.inputs) input = value_of(input);
    for (int& output : node.outputs) output = value_of(output);
    nodes.push_back(std::move(node));
  }
  std::vector<int> outputs;
  for (const int id : body.outputs) outputs.push_back(value_of(id));
  return outputs;
}

}  // namespace convoy::network
