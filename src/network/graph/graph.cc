#include "network/graph/graph.h"

#include <algorithm>

namespace convoy::network {

int Graph::add_value(std::string value_name) {
  values.push_back({.name = std::move(value_name), .known = false, .desc = {}, .constant = {}});
  return static_cast<int>(values.size()) - 1;
}

int Graph::add_constant(std::string value_name, HostTensor tensor) {
  const int id = add_value(std::move(value_name));
  values[id].known = true;
  values[id].desc = tensor.desc;
  values[id].constant = std::move(tensor);
  return id;
}

std::vector<int> Graph::producers() const {
  std::vector<int> result(values.size(), kAbsent);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].erased) continue;
    for (int output : nodes[n].outputs) {
      if (output != kAbsent) result[output] = static_cast<int>(n);
    }
  }
  return result;
}

std::vector<std::vector<int>> Graph::readers() const {
  std::vector<std::vector<int>> result(values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].erased) continue;
    for (int input : nodes[n].inputs) {
      if (input != kAbsent) result[input].push_back(static_cast<int>(n));
    }
  }
  return result;
}

bool Graph::is_output(int value) const { return std::find(outputs.begin(), outputs.end(), value) != outputs.end(); }

const HostTensor* Graph::constant_of(int value) const {
  if (value == kAbsent || !values[value].constant) return nullptr;
  return &*values[value].constant;
}

void Graph::replace_uses(int from, int to) {
  for (Node& node : nodes) {
    for (int& input : node.inputs) {
      if (input == from) input = to;
    }
  }
  for (int& output : outputs) {
    if (output == from) output = to;
  }
}

void Graph::sweep() {
  std::erase_if(nodes, [](const Node& node) { return node.erased; });
}

std::optional<std::vector<double>> small_constant(const Graph& graph, int value, std::int64_t limit) {
  const HostTensor* tensor = graph.constant_of(value);
  if (tensor == nullptr || tensor->desc.elements() > limit) return std::nullopt;
  std::vector<double> result(static_cast<std::size_t>(tensor->desc.elements()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = tensor->at(static_cast<std::int64_t>(i));
  return result;
}

std::optional<std::vector<std::int64_t>> small_integers(const Graph& graph, int value, std::int64_t limit) {
  const HostTensor* tensor = graph.constant_of(value);
  if (tensor == nullptr || tensor->desc.elements() > limit) return std::nullopt;
  const std::int64_t count = tensor->desc.elements();
  if (tensor->desc.type == DataType::s64) {
    return std::vector<std::int64_t>(tensor->as<std::int64_t>(), tensor->as<std::int64_t>() + count);
  }
  if (tensor->desc.type == DataType::s32) {
    return std::vector<std::int64_t>(tensor->as<std::int32_t>(), tensor->as<std::int32_t>() + count);
  }
  return std::nullopt;
}

std::optional<double> scalar_constant(const Graph& graph, int value) {
  const auto values = small_constant(graph, value, 1);
  if (!values || values->size() != 1) return std::nullopt;
  return values->front();
}

std::optional<std::vector<double>> channel_constant(const Graph& graph, int value, int rank, std::int64_t channels) {
  const HostTensor* tensor = graph.constant_of(value);
  if (tensor == nullptr || tensor->desc.rank() > rank) return std::nullopt;
  const Dims& dims = tensor->desc.dims;
  const int offset = rank - static_cast<int>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool is_channel = static_cast<int>(i) + offset == 1;
    if (dims[i] != 1 && !(is_channel && dims[i] == channels)) return std::nullopt;
  }
  auto values = small_constant(graph, value, channels);
  if (!values) return std::nullopt;
  if (values->size() == 1) values->assign(static_cast<std::size_t>(channels), values->front());
  return values;
}

Result<void> check(const Graph& graph) {
  const auto corrupt = [](const std::string& text) { return Error{ErrorCode::corrupt, text}; };
  const int count = static_cast<int>(graph.values.size());
  const auto outside = [&](int id) { return id != kAbsent && (id < 0 || id >= count); };
  std::vector<bool> made(graph.values.size(), false);
  for (std::size_t id = 0; id < made.size(); ++id) made[id] = graph.values[id].constant.has_value();
  // Inputs and outputs are not optional.
  for (const auto& [ids, what] : {std::pair(&graph.inputs, "input"), {&graph.outputs, "output"}}) {
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const int id = (*ids)[i];
      if (id >= 0 && id < count) continue;
      return corrupt("graph " + std::string(what) + " " + std::to_string(i) + ": there is no value " +
                     std::to_string(id) + ", values go from 0 to " + std::to_string(count - 1));
    }
  }
  for (const int id : graph.inputs) made[id] = true;
  for (const Node& node : graph.nodes) {
    if (std::ranges::any_of(node.inputs, outside) || std::ranges::any_of(node.outputs, outside)) {
      return corrupt(describe(node) + ": a value that there is not");
    }
    for (const int id : node.outputs) {
      if (id == kAbsent) continue;
      if (made[id]) return corrupt(describe(node) + ": the value '" + graph.values[id].name + "' is made already");
      made[id] = true;
    }
  }
  const auto missing = [&](int id, const std::string& reader) {
    return corrupt(reader + ": nothing makes the value '" + graph.values[id].name + "'");
  };
  for (const Node& node : graph.nodes) {
    for (const int id : node.inputs) {
      if (id != kAbsent && !made[id]) return missing(id, describe(node));
    }
  }
  for (const int id : graph.outputs) {
    if (!made[id]) return missing(id, "the graph's outputs");
  }
  return {};
}

std::vector<const Node*> parts_of(const Node& node) {
  std::vector<const Node*> ahead, behind;
  const Node* left = &node;
  for (; left->fused; left = &left->fused->conv) {
    if (left->fused->ahead) {
      ahead.push_back(&left->fused->next);
    } else {
      behind.insert(behind.begin(), &left->fused->next);
    }
  }
  ahead.push_back(left);
  ahead.insert(ahead.end(), behind.begin(), behind.end());
  return ahead;
}

const Node& without_gate(const Node& node) { return node.fused && node.fused->ahead ? node.fused->conv : node; }

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

std::string describe(const Node& node) { return "node '" + node.desc.name + "' (" + node.desc.op + ")"; }

}  // namespace convoy::network
