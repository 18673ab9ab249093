// conv -> Add(residual) -> activation becomes one step: out = act(conv + bias + z). Only where nobody else reads what
// disappears.
#include <algorithm>
#include <cmath>
#include <limits>

#include "network/conv_node.h"
#include "network/pass.h"

namespace convoy::network {
namespace {

// The bounds of a Clip where both are known and finite; a missing bound is infinite.
std::optional<Activation> clip_activation(const Graph& graph, const Node& node) {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  if (node.desc.opset < 11) {
    const auto min = node.desc.real("min", low);
    const auto max = node.desc.real("max", high);
    if (!min.ok() || !max.ok()) return std::nullopt;
    low = *min;
    high = *max;
  } else {
    double* bounds[] = {&low, &high};
    for (std::size_t i = 1; i < node.inputs.size() && i < 3; ++i) {
      if (node.inputs[i] == kAbsent) continue;
      const auto value = scalar_constant(graph, node.inputs[i]);
      if (!value) return std::nullopt;
      *bounds[i - 1] = *value;
    }
  }
  // Exporters also write the largest finite number for "no bound".
  const bool unbounded = high >= static_cast<double>(std::numeric_limits<float>::max());
  if (low == 0 && unbounded) return Activation{ActivationKind::relu, 0, 0};
  if (!std::isfinite(low) || !std::isfinite(high)) return std::nullopt;
  return Activation{ActivationKind::clip, low, high};
}

std::optional<Activation> activation_of(const Graph& graph, const Node& node) {
  const auto with = [&](ActivationKind kind, const char* a, double a_default, const char* b = nullptr,
                        double b_default = 0) -> std::optional<Activation> {
    const auto a_value = node.desc.real(a, a_default);
    const auto b_value = b != nullptr ? node.desc.real(b, b_default) : Result<double>(0.0);
    if (!a_value.ok() || !b_value.ok()) return std::nullopt;
    return Activation{kind, *a_value, *b_value};
  };
  if (!node.desc.domain.empty() || node.desc.opset < 6) return std::nullopt;
  const std::string& op = node.desc.op;
  if (op == "Relu") return Activation{ActivationKind::relu, 0, 0};
  if (op == "Clip") return clip_activation(graph, node);
  if (op == "LeakyRelu") return with(ActivationKind::leaky_relu, "alpha", 0.01);
  if (op == "Elu") return with(ActivationKind::elu, "alpha", 1.0);
  if (op == "Sigmoid") return Activation{ActivationKind::sigmoid, 0, 0};
  if (op == "Tanh") return Activation{ActivationKind::tanh, 0, 0};
  if (op == "HardSwish") return Activation{ActivationKind::hard_swish, 0, 0};
  if (op == "HardSigmoid") return with(ActivationKind::hard_sigmoid, "alpha", 0.2, "beta", 0.5);
  if (op == "Swish") return with(ActivationKind::swish, "alpha", 1.0);
  if (op == "Mish") return Activation{ActivationKind::mish, 0, 0};
  if (op == "Gelu") {
    const auto approximate = node.desc.text("approximate", "none");
    if (!approximate.ok()) return std::nullopt;
    return Activation{*approximate == "tanh" ? ActivationKind::gelu_tanh : ActivationKind::gelu, 0, 0};
  }
  return std::nullopt;
}

void add_input(Node& conv, int value, int& index) {
  const std::size_t own = conv.desc.op == "Conv" || conv.desc.op == "ConvTranspose" ? 3 : conv.inputs.size();
  conv.inputs.resize(std::max(conv.inputs.size(), own), kAbsent);
  index = static_cast<int>(conv.inputs.size());
  conv.inputs.push_back(value);
}

void absorb(Node& conv, Node& next) {
  conv.outputs[0] = next.outputs[0];
  conv.sources.insert(conv.sources.end(), next.sources.begin(), next.sources.end());
  next.erased = true;
}

bool takes_epilogue(const Node& node) {
  return !node.erased && node.desc.domain.empty() && (node.desc.op == "Conv" || node.desc.op == "ConvTranspose") &&
         node.fusion.activation.kind == ActivationKind::identity;
}

class Fusion {
 public:
  explicit Fusion(Graph& graph) : graph_(graph) { update(); }

  Result<int> run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      bool again = true;
      while (again && takes_epilogue(graph_.nodes[n])) {
        CONVOY_TRY(again, step(static_cast<int>(n)));
        if (again) {
          ++changes_;
          update();
        }
      }
    }
    graph_.sweep();
    return changes_;
  }

 private:
  void update() {
    producers_ = graph_.producers();
    readers_ = graph_.readers();
  }

  Result<bool> step(int n) {
    Node& conv = graph_.nodes[n];
    const int out = conv.outputs[0];
    if (readers_[out].size() != 1 || graph_.is_output(out) || !graph_.values[out].known) return false;
    Node& next = graph_.nodes[readers_[out][0]];
    if (next.desc.op == "Add" && next.desc.domain.empty()) return add_residual(n, conv, next, out);
    if (next.desc.op == "PRelu" && next.desc.domain.empty()) return add_prelu(conv, next, out);
    if (next.inputs[0] != out) return false;
    const auto activation = activation_of(graph_, next);
    if (!activation) return false;
    conv.fusion.activation = *activation;
    absorb(conv, next);
    return true;
  }

  Result<bool> add_residual(int n, Node& conv, Node& add, int out) {
    if (conv.fusion.residual != kAbsent || add.desc.opset < 7 || add.inputs.size() != 2) return false;
    const int other = add.inputs[add.inputs[0] == out ? 1 : 0];
    if (other == kAbsent || other == out || !graph_.values[other].known) return false;
    const TensorDesc& desc = graph_.values[out].desc;
    const TensorDesc& z = graph_.values[other].desc;
    if (z.dims != desc.dims || z.type != desc.type) return false;
    // Of two convolutions that are added the later one takes the sum: the earlier one's result is there by then.
    const int producer = producers_[other];
    if (producer > n && takes_epilogue(graph_.nodes[producer]) && readers_[other].size() == 1 &&
        graph_.nodes[producer].fusion.residual == kAbsent && !graph_.is_output(other)) {
      return false;
    }
    add_input(conv, other, conv.fusion.residual);
    absorb(conv, add);
    return true;
  }

  Result<bool> add_prelu(Node& conv, Node& prelu, int out) {
    if (prelu.inputs.size() != 2 || prelu.inputs[0] != out || prelu.desc.opset < 7) return false;
    const Dims dims = graph_.values[out].desc.dims;
    const auto slopes = channel_constant(graph_, prelu.inputs[1], static_cast<int>(dims.size()), dims[1]);
    if (!slopes) return false;
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(DataType::f32, {dims[1]})));
    for (std::size_t i = 0; i < slopes->size(); ++i) tensor.as<float>()[i] = static_cast<float>((*slopes)[i]);
    const int id = graph_.add_constant(conv.desc.name + ".slopes", std::move(tensor));
    add_input(conv, id, conv.fusion.slopes);
    conv.fusion.activation = Activation{ActivationKind::prelu, 0, 0};
    absorb(conv, prelu);
    return true;
  }

  Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  int changes_ = 0;
};

}  // namespace

Result<int> conv_fusion(Graph& graph, const PassContext& context) {
  CONVOY_TRY(const int changes, Fusion(graph).run());
  // A residual may come from a node behind the convolution that now reads it.
  CONVOY_CHECK(topological_order(graph, context));
  return changes;
}

}  // namespace convoy::network
