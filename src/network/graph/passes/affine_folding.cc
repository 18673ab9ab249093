// y = scale[c] * conv(x) + shift[c] is the convolution with weights scale[k]*w[k] and bias scale[k]*bias[k] + shift[k].
// Not where a finite weight or bias would become infinite: y may be finite, or one infinity where the sum is of two.
#include <algorithm>
#include <cmath>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/affine.h"
#include "network/graph/passes/take_over.h"

namespace convoy::network {

std::optional<Affine> affine_of(const Graph& graph, const Node& node, int from, int rank, std::int64_t channels) {
  if (!node.desc.domain.empty()) return std::nullopt;
  const auto count = static_cast<std::size_t>(channels);
  Affine result{std::vector<double>(count, 1.0), std::vector<double>(count, 0.0)};
  const std::string& op = node.desc.op;
  if (op == "BatchNormalization") {
    if (node.inputs.size() != 5 || node.inputs[0] != from) return std::nullopt;
    const auto training = node.desc.integer("training_mode", 0);
    const auto spatial = node.desc.integer("spatial", 1);
    const auto epsilon = node.desc.real("epsilon", 1e-5);
    if (!training.ok() || *training != 0 || !spatial.ok() || *spatial != 1 || !epsilon.ok()) return std::nullopt;
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kAbsent) return std::nullopt;  // statistics are asked for
    }
    std::vector<double> parameters[4];
    for (int i = 0; i < 4; ++i) {
      auto values = small_constant(graph, node.inputs[1 + i], channels);
      if (!values || values->size() != count) return std::nullopt;
      parameters[i] = std::move(*values);
    }
    for (std::size_t c = 0; c < count; ++c) {
      result.scale[c] = parameters[0][c] / std::sqrt(parameters[3][c] + *epsilon);
      result.shift[c] = parameters[1][c] - parameters[2][c] * result.scale[c];
    }
    return result;
  }
  if (op != "Mul" && op != "Div" && op != "Add" && op != "Sub") return std::nullopt;
  if (node.desc.opset < 7 || node.inputs.size() != 2) return std::nullopt;  // before, broadcasting was an attribute
  const bool from_left = node.inputs[0] == from;
  if (from_left == (node.inputs[1] == from)) return std::nullopt;
  const auto values = channel_constant(graph, node.inputs[from_left ? 1 : 0], rank, channels);
  if (!values) return std::nullopt;
  for (std::size_t c = 0; c < count; ++c) {
    const double value = (*values)[c];
    if (op == "Mul") {
      result.scale[c] = value;
    } else if (op == "Div") {
      if (!from_left || value == 0) return std::nullopt;
      result.scale[c] = 1 / value;
    } else if (op == "Add") {
      result.shift[c] = value;
    } else {
      result.scale[c] = from_left ? 1 : -1;
      result.shift[c] = from_left ? -value : value;
    }
  }
  return result;
}

bool has_constant_weights(const Graph& graph, const Node& conv) {
  const ConvForm* const form = conv_form(conv);
  if (conv.erased || form == nullptr || !form->is_float()) return false;
  if (conv.fusion.residual != kAbsent || conv.fusion.activation.kind != ActivationKind::identity) return false;
  const ConvInputs own = conv_inputs(conv);
  const HostTensor* weights = graph.constant_of(own.weights);
  if (weights == nullptr || weights->desc.rank() < 3) return false;
  return own.bias == kAbsent || graph.constant_of(own.bias) != nullptr;
}

namespace {

// False where a finite value became none.
bool store_scaled(const HostTensor& to, std::int64_t i, double value, double from) {
  store_from_double(to.desc.type, to.data.get(), i, value);
  return std::isfinite(load_as_double(to.desc.type, to.data.get(), i)) || !std::isfinite(from);
}

// False where the values don't allow it.
Result<bool> fold(Graph& graph, Node& conv, const Affine& affine, std::int64_t groups) {
  const ConvForm& form = *conv_form(conv);
  const ConvInputs own = conv_inputs(conv);
  const HostTensor old_weights = *graph.constant_of(own.weights);
  const HostTensor* old_bias = graph.constant_of(own.bias);
  CONVOY_TRY(HostTensor weights, HostTensor::allocate(old_weights.desc));
  const DataType type = weights.desc.type;
  const Dims& dims = weights.desc.dims;
  // What lies together in ONNX's order and belongs to one output channel: of [K, C/group, taps] the whole filter, of
  // [C, K/group, taps] (transposed) the taps of one.
  const std::int64_t count = weights.desc.elements();
  const std::int64_t taps = count > 0 ? count / (dims[0] * dims[1]) : 1;
  const std::int64_t together = form.transposed ? taps : taps * dims[1];
  for (std::int64_t first = 0, row = 0; first < count; first += together, ++row) {
    const std::int64_t group = form.transposed ? row / dims[1] / (dims[0] / groups) : 0;
    const std::int64_t channel = form.transposed ? group * dims[1] + row % dims[1] : row;
    const double scale = affine.scale[static_cast<std::size_t>(channel)];
    if (!std::isfinite(scale)) return false;
    if (type == DataType::f32) {
      const float* from = old_weights.as<float>();
      float* to = weights.as<float>();
      bool finite = true;
      for (std::int64_t i = first; i < first + together; ++i) {
        to[i] = static_cast<float>(from[i] * scale);
        finite &= std::isfinite(to[i]) || !std::isfinite(from[i]);
      }
      if (!finite) return false;
      continue;
    }
    for (std::int64_t i = first; i < first + together; ++i) {
      const double from = load_as_double(type, old_weights.data.get(), i);
      if (!store_scaled(weights, i, from * scale, from)) return false;
    }
  }
  const auto channels = static_cast<std::int64_t>(affine.scale.size());
  CONVOY_TRY(HostTensor bias, HostTensor::allocate(TensorDesc::packed(type, {channels})));
  for (std::int64_t c = 0; c < channels; ++c) {
    const double before = old_bias != nullptr ? load_as_double(type, old_bias->data.get(), c) : 0;
    const auto at = static_cast<std::size_t>(c);
    if (!store_scaled(bias, c, before * affine.scale[at] + affine.shift[at], before + affine.shift[at])) return false;
  }
  conv.inputs.resize(static_cast<std::size_t>(form.inputs), kAbsent);
  conv.inputs[form.weights] = graph.add_constant(graph.values[own.weights].name + ".folded", std::move(weights));
  conv.inputs[form.bias] = graph.add_constant(conv.desc.name + ".bias", std::move(bias));
  return true;
}

// conv -> Relu -> a positive scale of channels: the scale may come first. Precondition: nobody but `relu`, if it is
// one, reads the convolution.
Result<bool> fold_through_relu(Graph& graph, Node& conv, Node& relu, const std::vector<std::vector<int>>& readers) {
  if (relu.desc.op != "Relu" || !relu.desc.domain.empty()) return false;
  const int out = relu.outputs[0];
  if (readers[out].size() != 1 || graph.is_output(out) || !graph.values[out].known) return false;
  Node& next = graph.nodes[readers[out][0]];
  const Dims dims = graph.values[out].desc.dims;
  const auto affine = affine_of(graph, next, out, static_cast<int>(dims.size()), dims[1]);
  const auto groups = conv.desc.integer("group", 1);
  if (!affine || !groups.ok()) return false;
  if (!graph.values[next.outputs[0]].known || graph.values[next.outputs[0]].desc.dims != dims) return false;
  const bool is_scale = std::ranges::all_of(affine->scale, [](double scale) { return scale > 0; }) &&
                        std::ranges::all_of(affine->shift, [](double shift) { return shift == 0; });
  if (!is_scale) return false;
  CONVOY_TRY(const bool folded, fold(graph, conv, *affine, *groups));
  if (!folded) return false;
  take_over(relu, next);
  return true;
}

}  // namespace

Result<int> affine_folding(Graph& graph, const PassContext&) {
  int changes = 0;
  auto readers = graph.readers();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    while (has_constant_weights(graph, graph.nodes[n])) {
      Node& conv = graph.nodes[n];
      const int out = conv.outputs[0];
      if (readers[out].size() != 1 || graph.is_output(out) || !graph.values[out].known) break;
      Node& next = graph.nodes[readers[out][0]];
      const Dims out_dims = graph.values[out].desc.dims;
      CONVOY_TRY(const bool scaled, fold_through_relu(graph, conv, next, readers));
      if (scaled) {
        readers = graph.readers();
        ++changes;
        continue;
      }
      const auto affine = affine_of(graph, next, out, static_cast<int>(out_dims.size()), out_dims[1]);
      const auto groups = conv.desc.integer("group", 1);
      if (!affine || !groups.ok()) break;
      // A constant of higher rank, or one that is larger, would have changed the dims: then it is no affine map.
      if (!graph.values[next.outputs[0]].known || graph.values[next.outputs[0]].desc.dims != out_dims) break;
      CONVOY_TRY(const bool folded, fold(graph, conv, *affine, *groups));
      if (!folded) break;
      take_over(conv, next);
      readers = graph.readers();
      ++changes;
    }
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
