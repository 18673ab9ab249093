#include "network/graph/composite.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "ops/support.h"

namespace convoy::network {
namespace {

constexpr int kOpset = 21;  // of the nodes that take a composite's place

using Key = std::pair<std::string_view, std::string_view>;  // domain, operator

const std::map<Key, const Composite*>& table() {
  static const auto* const rows = [] {
    auto* const all = new std::map<Key, const Composite*>;
    for (const std::span<const Composite> family :
         {activation_composites(), attention_composites(), convolution_composites(), loss_composites(),
          matmul_composites(), n_bits_composites(), nchwc_composites(), normalization_composites(),
          ort_attention_composites(), quantized_composites(), renamed_composites(), rotary_composites()}) {
      for (const Composite& each : family) all->emplace(Key{each.domain, each.op}, &each);
    }
    return all;
  }();
  return *rows;
}

Result<std::vector<Node>> expanded(Graph& graph, const Node& node, const Composite& composite) {
  Expansion expansion(graph, node);
  CONVOY_CHECK(composite.expand(expansion));
  return expansion.finish();
}

}  // namespace

const Composite* find_composite(std::string_view domain, std::string_view op) {
  const auto found = table().find({domain, op});
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> composite_names() {
  std::vector<std::string> names;
  for (const auto& [key, unused] : table()) {
    names.push_back((key.first.empty() ? "" : std::string(key.first) + ".") + std::string(key.second));
  }
  return names;
}

Result<void> infer_composite(Graph& graph, const Node& node, const Composite& composite) {
  // On a graph of its own, which has copies of what the node reads (constants share their memory).
  Graph scratch;
  Node copy = node;
  for (int& input : copy.inputs) {
    if (input == kAbsent) continue;
    scratch.values.push_back(graph.values[input]);
    input = static_cast<int>(scratch.values.size()) - 1;
  }
  for (int& output : copy.outputs) {
    if (output != kAbsent) output = scratch.add_value(graph.values[output].name);
  }
  CONVOY_TRY(const std::vector<Node> nodes, expanded(scratch, copy, composite));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    graph.values[node.outputs[i]].known = true;
    graph.values[node.outputs[i]].desc = scratch.values[copy.outputs[i]].desc;
  }
  return {};
}

Result<int> expansion(Graph& graph, const PassContext&) {
  int changes = 0;
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (Node& node : graph.nodes) {
    const Composite* const composite = find_composite(node.desc.domain, node.desc.op);
    if (composite == nullptr || !can_infer(graph, node)) {
      nodes.push_back(std::move(node));
      continue;
    }
    const Node whole = std::move(node);
    CONVOY_TRY(std::vector<Node> parts, expanded(graph, whole, *composite));
    std::move(parts.begin(), parts.end(), std::back_inserter(nodes));
    ++changes;
  }
  graph.nodes = std::move(nodes);
  return changes;
}

// ---- Expansion

bool Expansion::wants(int output) const {
  return output < static_cast<int>(node_.outputs.size()) && node_.outputs[output] != kAbsent;
}

Error Expansion::bad(const std::string& text) const {
  return {ErrorCode::invalid_argument, describe(node_) + ": " + text};
}

std::optional<HostTensor> Expansion::constant(int value) const {
  const HostTensor* const tensor = graph_.constant_of(value);
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

Result<void> Expansion::check_inputs(int least, int most) const {
  if (inputs() > most) return bad(fmt::format("{} inputs, it has {} at most", inputs(), most));
  for (int i = 0; i < least; ++i) {
    if (!has(i)) return bad(fmt::format("input {} is absent", i));
  }
  return {};
}

Result<void> Expansion::check_dims(int index, std::string_view what, const Dims& wanted) const {
  const Dims have = dims(input(index));
  bool fits = have.size() == wanted.size();
  for (std::size_t d = 0; fits && d < wanted.size(); ++d) fits = wanted[d] < 0 || have[d] == wanted[d];
  if (fits) return {};
  std::vector<std::string> shape;
  for (const std::int64_t size : wanted) shape.push_back(size < 0 ? "?" : std::to_string(size));
  return bad(
      fmt::format("input {} ({}) has dims [{}], it needs [{}]", index, what, to_string(have), fmt::join(shape, "x")));
}

Result<std::vector<int>> Expansion::append(ops::NodeDesc desc, std::vector<int> inputs, int outputs) {
  Node node;
  node.desc = std::move(desc);
  node.desc.name = node_.desc.name;
  node.desc.output_count = outputs;
  node.inputs = std::move(inputs);
  node.sources = node_.sources;
  for (int i = 0; i < outputs; ++i) {
    node.outputs.push_back(graph_.add_value(fmt::format("{}.{}_{}", node_.desc.name, node.desc.op, nodes_.size())));
  }
  CONVOY_TRY(const Knowledge knowledge, infer_node(graph_, node));
  if (knowledge != Knowledge::known) {
    return Error{ErrorCode::internal, describe(node_) + ": " + node.desc.op + " within can't be inferred"};
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

Result<int> Expansion::add(ops::NodeDesc desc, std::vector<int> inputs) {
  CONVOY_TRY(const std::vector<int> made, append(std::move(desc), std::move(inputs), 1));
  return made.front();
}

Result<std::vector<int>> Expansion::add_many(const std::string& op, std::vector<int> inputs, Attributes attributes,
                                             int outputs) {
  ops::NodeDesc desc;
  desc.op = op;
  desc.opset = kOpset;
  desc.attributes = std::move(attributes);
  return append(std::move(desc), std::move(inputs), outputs);
}

Result<int> Expansion::add(const std::string& op, std::vector<int> inputs, Attributes attributes) {
  CONVOY_TRY(const std::vector<int> made, add_many(op, std::move(inputs), std::move(attributes), 1));
  return made.front();
}

int Expansion::constant_value(HostTensor tensor) {
  return graph_.add_constant(node_.desc.name + ".constant", std::move(tensor));
}

Result<int> Expansion::scalar(DataType type, double value) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, {})));
  store_from_double(type, tensor.data.get(), 0, value);
  return constant_value(std::move(tensor));
}

Result<int> Expansion::integers(const std::vector<std::int64_t>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(DataType::s64, {count})));
  std::ranges::copy(values, tensor.as<std::int64_t>());
  return constant_value(std::move(tensor));
}

Result<int> Expansion::reshape(int value, const Dims& wanted) {
  if (dims(value) == wanted) return value;
  CONVOY_TRY(const int shape, integers(wanted));
  return add("Reshape", {value, shape}, {{"allowzero", std::int64_t{1}}});
}

Result<int> Expansion::transpose(int value, const std::vector<std::int64_t>& order) {
  return add("Transpose", {value}, {{"perm", order}});
}

Result<int> Expansion::cast(int value, DataType wanted) {
  if (type(value) == wanted) return value;
  return add("Cast", {value}, {{"to", ops::onnx_number(wanted)}});
}

Result<int> Expansion::slice(int value, int axis, std::int64_t from, std::int64_t to) {
  CONVOY_TRY(const int starts, integers({from}));
  CONVOY_TRY(const int ends, integers({to}));
  CONVOY_TRY(const int axes, integers({axis}));
  return add("Slice", {value, starts, ends, axes});
}

Result<int> Expansion::scaled(int value, double factor) {
  if (factor == 1) return value;
  CONVOY_TRY(const int by, scalar(type(value), factor));
  return add("Mul", {value, by});
}

Result<std::vector<Node>> Expansion::finish() {
  std::vector<bool> done(node_.outputs.size(), false);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const auto [index, value] = given_[i];
    if (!wants(index)) continue;
    const int output = node_.outputs[static_cast<std::size_t>(index)];
    done[static_cast<std::size_t>(index)] = true;
    graph_.values[output].known = true;
    graph_.values[output].desc = graph_.values[value].desc;
    const auto makes = [made = value](const Node& node) { return std::ranges::count(node.outputs, made) > 0; };
    // One that has become an output before, or that the node only passes on, is copied.
    if (std::ranges::none_of(nodes_, makes) || std::ranges::count(node_.outputs, value) > 0) {
      CONVOY_CHECK(add("Identity", {value}));
      nodes_.back().outputs = {output};
    } else {
      for (Node& node : nodes_) {
        std::ranges::replace(node.inputs, value, output);
        std::ranges::replace(node.outputs, value, output);
      }
    }
    for (auto& other : given_) {
      if (other.second == value) other.second = output;
    }
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i] && node_.outputs[i] != kAbsent) return bad(fmt::format("output {} is not supported", i));
  }
  return std::move(nodes_);
}

}  // namespace convoy::network
