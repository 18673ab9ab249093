#include <algorithm>
#include <cmath>
#include <limits>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

struct Padding {
  Dims pre, post;  // of the spatial dims
  double value = 0;
};

// Sizes whose sum is one, too.
bool is_small(std::int64_t pad) { return pad >= 0 && pad <= std::numeric_limits<std::int32_t>::max(); }

// The padding of a Pad node whose mode is constant and which leaves N and C alone.
std::optional<Padding> constant_padding(const Graph& graph, const Node& node) {
  if (node.desc.op != "Pad" || !node.desc.domain.empty() || node.inputs.empty() || node.inputs[0] == kAbsent) {
    return std::nullopt;
  }
  const Value& data = graph.values[node.inputs[0]];
  if (!data.known || data.desc.rank() < 3) return std::nullopt;
  const int rank = data.desc.rank();
  const auto mode = node.desc.text("mode", "constant");
  if (!mode.ok() || *mode != "constant") return std::nullopt;
  Padding padding;
  Dims pads;
  if (node.desc.opset < 11) {
    const auto attribute = node.desc.integers(node.desc.opset < 2 ? "paddings" : "pads", {});
    const auto value = node.desc.real("value", 0);
    if (!attribute.ok() || !value.ok()) return std::nullopt;
    pads = *attribute;
    padding.value = *value;
  } else {
    if (node.inputs.size() < 2) return std::nullopt;
    const auto constant = small_integers(graph, node.inputs[1], 2 * rank);
    if (!constant) return std::nullopt;
    pads = *constant;
    if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
      const auto value = scalar_constant(graph, node.inputs[2]);
      if (!value) return std::nullopt;
      padding.value = *value;
    }
  }
  Dims axes(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[i] = i;
  if (node.inputs.size() > 3 && node.inputs[3] != kAbsent) {
    const auto constant = small_integers(graph, node.inputs[3], rank);
    if (!constant) return std::nullopt;
    axes = *constant;
    for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  }
  if (pads.size() != 2 * axes.size()) return std::nullopt;
  padding.pre.assign(static_cast<std::size_t>(rank - 2), 0);
  padding.post = padding.pre;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t pre = pads[i];
    const std::int64_t post = pads[axes.size() + i];
    if (!is_small(pre) || !is_small(post) || axes[i] < 0 || axes[i] >= rank) return std::nullopt;
    if (axes[i] < 2 && (pre > 0 || post > 0)) return std::nullopt;
    if (axes[i] < 2) continue;
    padding.pre[axes[i] - 2] = pre;
    padding.post[axes[i] - 2] = post;
  }
  return padding;
}

// Whether the node's own padding is stated as numbers and what it is.
std::optional<Dims> own_pads(const Node& node, std::size_t spatial) {
  const auto auto_pad = node.desc.text("auto_pad", "NOTSET");
  if (!auto_pad.ok() || (*auto_pad != "NOTSET" && *auto_pad != "VALID")) return std::nullopt;
  const auto pads = node.desc.integers("pads", {});
  if (!pads.ok()) return std::nullopt;
  if (*auto_pad == "VALID" || pads->empty()) return Dims(2 * spatial, 0);
  if (pads->size() != 2 * spatial) return std::nullopt;
  if (!std::all_of(pads->begin(), pads->end(), is_small)) return std::nullopt;
  return *pads;
}

// The integer forms are padded with x's zero point, and a transposed one's padding takes away.
bool is_padded_with_zeros(const Node& node) {
  const ConvForm* const form = conv_form(node);
  return form != nullptr && form->is_float() && !form->transposed;
}

// The zeros of a Pad are data: an infinite weight makes a NaN of them, of a convolution's own padding it makes nothing.
bool has_finite_weights(const Graph& graph, const Node& node) {
  const HostTensor* weights = graph.constant_of(conv_inputs(node).weights);
  if (weights == nullptr) return false;
  const DataType type = weights->desc.type;
  const std::int64_t count = weights->desc.elements();
  bool finite = true;
  if (type == DataType::f32) {
    for (std::int64_t i = 0; i < count; ++i) finite &= std::isfinite(weights->as<float>()[i]);
    return finite;
  }
  for (std::int64_t i = 0; i < count; ++i) finite &= std::isfinite(load_as_double(type, weights->data.get(), i));
  return finite;
}

bool fold_into(const Graph& graph, Node& node, const Padding& padding) {
  const std::size_t spatial = padding.pre.size();
  auto pads = own_pads(node, spatial);
  if (!pads || !node.desc.domain.empty()) return false;
  const bool pads_nothing = std::all_of(pads->begin(), pads->end(), [](std::int64_t pad) { return pad == 0; });
  const auto ceil_mode = node.desc.integer("ceil_mode", 0);
  if (is_padded_with_zeros(node)) {
    if (padding.value != 0 || !has_finite_weights(graph, node)) return false;
  } else if (node.desc.op == "AveragePool") {
    // The padded zeros were data, which counts: the pooling has to count its padding too.
    const auto counted = node.desc.integer("count_include_pad", 0);
    if (padding.value != 0 || !counted.ok() || !ceil_mode.ok() || *ceil_mode != 0) return false;
    if (!pads_nothing && *counted == 0) return false;
    node.desc.attributes["count_include_pad"] = std::int64_t{1};
    node.desc.opset = std::max(node.desc.opset, 7);  // where the attribute came in
  } else if (node.desc.op == "MaxPool") {
    // Its padding is minus infinity, so only a pad that can't win is one.
    if (padding.value != -std::numeric_limits<double>::infinity()) return false;
    if (!ceil_mode.ok() || *ceil_mode != 0 || node.outputs.size() > 1) return false;
  } else {
    return false;
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    (*pads)[i] += padding.pre[i];
    (*pads)[spatial + i] += padding.post[i];
  }
  node.desc.attributes["pads"] = *pads;
  node.desc.attributes.erase("auto_pad");
  return true;
}

// Poolings refuse padding that reaches the kernel's size.
bool padding_fits(const Node& node, const Padding& padding) {
  if (is_padded_with_zeros(node)) return true;
  const auto kernel = node.desc.integers("kernel_shape", {});
  const auto pads = own_pads(node, padding.pre.size());
  if (!kernel.ok() || !pads || kernel->size() != padding.pre.size()) return false;
  for (std::size_t i = 0; i < kernel->size(); ++i) {
    if (padding.pre[i] + (*pads)[i] >= (*kernel)[i]) return false;
    if (padding.post[i] + (*pads)[kernel->size() + i] >= (*kernel)[i]) return false;
  }
  return true;
}

}  // namespace

Result<int> pad_folding(Graph& graph, const PassContext&) {
  int changes = 0;
  const auto readers = graph.readers();
  for (Node& pad : graph.nodes) {
    const auto padding = constant_padding(graph, pad);
    if (!padding || pad.outputs.empty() || pad.outputs[0] == kAbsent) continue;
    const int padded = pad.outputs[0];
    if (readers[padded].size() != 1 || graph.is_output(padded)) continue;
    Node& reader = graph.nodes[readers[padded][0]];
    if (reader.inputs[0] != padded || !padding_fits(reader, *padding) || !fold_into(graph, reader, *padding)) continue;
    reader.inputs[0] = pad.inputs[0];
    reader.sources.insert(reader.sources.begin(), pad.sources.begin(), pad.sources.end());
    pad.erased = true;
    ++changes;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
