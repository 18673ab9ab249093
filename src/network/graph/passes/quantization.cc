#include "network/graph/passes/quantization.h"

#include <algorithm>
#include <cmath>

namespace convoy::network {

double Quantization::quantized(double v) const {
  return std::clamp(std::nearbyint(v / scales.front()) + zeros.front(), lowest(), highest());
}

bool same(const Quantization& a, const Quantization& b) {
  return a.is_plain() && b.is_plain() && a.type == b.type && a.scales == b.scales && a.zeros.front() == b.zeros.front();
}

namespace {

bool is_either(const Node& node, const char* op) {
  return !node.erased && node.desc.op == op && (node.desc.domain.empty() || node.desc.domain == "com.microsoft") &&
         (node.inputs.size() == 2 || node.inputs.size() == 3) && node.outputs.size() == 1 &&
         node.inputs[0] != kAbsent && node.inputs[1] != kAbsent && node.outputs[0] != kAbsent;
}

}  // namespace

bool is_inferred(const Graph& graph, const Node& node) {
  return !node.outputs.empty() && node.outputs[0] != kAbsent && graph.values[node.outputs[0]].known;
}

bool is_quantize(const Node& node) { return is_either(node, "QuantizeLinear"); }
bool is_dequantize(const Node& node) { return is_either(node, "DequantizeLinear"); }

std::optional<Quantization> quantization_of(const Graph& graph, const Node& node) {
  const Value& x = graph.values[node.inputs[0]];
  const Value& y = graph.values[node.outputs[0]];
  const auto block = node.desc.integer("block_size", 0);
  const auto axis = node.desc.integer("axis", 1);
  if (!x.known || !y.known || !block.ok() || *block != 0 || !axis.ok()) return std::nullopt;
  const bool dequantizes = is_dequantize(node);
  if ((dequantizes ? y : x).desc.type != DataType::f32) return std::nullopt;

  Quantization result;
  result.type = (dequantizes ? x : y).desc.type;
  result.scale = node.inputs[1];
  const HostTensor* scale = graph.constant_of(result.scale);
  auto scales = small_constant(graph, result.scale);
  if (!scales || scale->desc.type != DataType::f32 || scale->desc.rank() > 1) return std::nullopt;
  if (!std::all_of(scales->begin(), scales->end(), [](double s) { return std::isfinite(s) && s > 0; }))
    return std::nullopt;
  result.scales = std::move(*scales);
  result.zeros.assign(result.scales.size(), 0);
  if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
    result.zero = node.inputs[2];
    const auto zeros = small_constant(graph, result.zero);
    if (!zeros || zeros->size() != result.scales.size()) return std::nullopt;
    if (graph.values[result.zero].desc.type != result.type) return std::nullopt;
    result.zeros = *zeros;
  }
  const int rank = x.desc.rank();
  if (result.scales.size() != 1) {
    if (*axis < -rank || *axis >= rank) return std::nullopt;
    result.axis = static_cast<int>(*axis < 0 ? *axis + rank : *axis);
    if (static_cast<std::int64_t>(result.scales.size()) != x.desc.dims[result.axis]) return std::nullopt;
  }
  return result;
}

QuantizedGraph::QuantizedGraph(Graph& graph) : graph_(graph) {
  producers_ = graph.producers();
  count_readers();
}

void QuantizedGraph::count_readers() { readers_ = graph_.readers(); }

std::optional<Dequantized> QuantizedGraph::dequantized(int value) const {
  if (value == kAbsent || producers_[value] == kAbsent) return std::nullopt;
  const Node& node = graph_.nodes[producers_[value]];
  if (!is_dequantize(node)) return std::nullopt;
  auto by = quantization_of(graph_, node);
  if (!by) return std::nullopt;
  return Dequantized{node.inputs[0], std::move(*by)};
}

std::optional<Dequantized> QuantizedGraph::activation(int value) const {
  auto found = dequantized(value);
  return found && found->by.is_plain() ? found : std::nullopt;
}

Node* QuantizedGraph::only_reader(int value) {
  if (value == kAbsent || readers_[value].size() != 1 || graph_.is_output(value)) return nullptr;
  Node& node = graph_.nodes[readers_[value].front()];
  return node.erased ? nullptr : &node;
}

Node& QuantizedGraph::append(const Node& like, std::string op, std::string domain, int opset, std::vector<int> inputs,
                             int output) {
  Node node;
  node.desc.op = std::move(op);
  node.desc.domain = std::move(domain);
  node.desc.name = like.desc.name;
  node.desc.opset = opset;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  node.sources = like.sources;
  producers_[output] = static_cast<int>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

int QuantizedGraph::new_value(const Node& like, const char* suffix) {
  const int id = graph_.add_value(like.desc.name + suffix);
  producers_.push_back(kAbsent);
  readers_.emplace_back();
  return id;
}

Result<int> QuantizedGraph::new_constant(const Node& like, const char* suffix, DataType type, Dims dims,
                                         const std::vector<double>& values) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, std::move(dims))));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(type, tensor.data.get(), static_cast<std::int64_t>(i), values[i]);
  }
  const int id = new_value(like, suffix);
  graph_.values[id].known = true;
  graph_.values[id].desc = tensor.desc;
  graph_.values[id].constant = std::move(tensor);
  return id;
}

Result<int> QuantizedGraph::zero_of(const Node& like, const Quantization& quantization) {
  if (quantization.zero != kAbsent) return quantization.zero;
  return new_constant(like, ".zero_point", quantization.type, {}, {0});
}

}  // namespace convoy::network
