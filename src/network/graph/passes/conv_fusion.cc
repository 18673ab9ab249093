// conv -> Add(residual) -> activation becomes one step: out = act(conv + bias + z); likewise QLinearConv -> QLinearAdd,
// whose values stay what they were but where f32 turned a tie. Only where nobody else reads what disappears.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/activations.h"
#include "network/graph/passes/take_over.h"

namespace convoy::network {
namespace {

// `before`: the convolution as it was, without what it takes from `next`.
void absorb(Node& conv, Node before, Node& next) {
  conv.fused = std::make_shared<Fusing>(Fusing{std::move(before), next});
  take_over(conv, next);
}

bool is_float(const Node& node) {
  const ConvForm* const form = conv_form(node);
  return form != nullptr && form->is_float();
}

bool requantizes(const Node& node) {
  const ConvForm* const form = conv_form(node);
  return form != nullptr && form->requantizes;
}

bool takes_quantized_residual(const Node& node) {
  return !node.erased && requantizes(node) && node.fusion.residual == kAbsent;
}

// An integer convolution whose sums become f32 does so behind the activation: only those fit that a positive factor
// leaves alone.
bool takes_epilogue(const Node& node) {
  return !node.erased && node.fusion.activation.kind == ActivationKind::identity &&
         (is_float(node) || (conv_form(node) != nullptr && node.fusion.scales != kAbsent));
}

bool takes(const Graph& graph, const Node& conv, const Activation& activation) {
  if (is_float(conv)) return true;
  const auto scales = small_constant(graph, conv.inputs[conv.fusion.scales]);
  const bool positive = scales && std::all_of(scales->begin(), scales->end(), [](double scale) { return scale > 0; });
  return positive && (activation.kind == ActivationKind::relu || activation.kind == ActivationKind::leaky_relu);
}

class Fusion {
 public:
  explicit Fusion(Graph& graph) : graph_(graph) { update(); }

  Result<int> run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      bool again = true;
      while (again && (takes_epilogue(graph_.nodes[n]) || takes_quantized_residual(graph_.nodes[n]))) {
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
    if (requantizes(conv)) return add_quantized_residual(n, conv, next, out);
    if (is_float(conv) && next.desc.domain.empty()) {
      if (next.desc.op == "Add") return add_residual(n, conv, next, out);
      if (next.desc.op == "PRelu") return add_prelu(conv, next, out);
    }
    if (next.inputs[0] != out) return false;
    const auto activation = activation_of(graph_, next);
    if (!activation || !takes(graph_, conv, *activation)) return false;
    Node before = conv;
    conv.fusion.activation = *activation;
    absorb(conv, std::move(before), next);
    return true;
  }

  Result<bool> add_residual(int n, Node& conv, Node& add, int out) {
    if (conv.fusion.residual != kAbsent || add.desc.opset < 7 || add.inputs.size() != 2) return false;
    const int other = add.inputs[add.inputs[0] == out ? 1 : 0];
    if (other == kAbsent || other == out || !graph_.values[other].known) return false;
    if (!alike(out, other)) return false;
    const Node* const later = later_producer(n, other);
    if (later != nullptr && is_float(*later) && takes_epilogue(*later) && later->fusion.residual == kAbsent)
      return false;
    Node before = conv;
    conv.fusion.residual = add_fused_input(conv, other);
    absorb(conv, std::move(before), add);
    return true;
  }

  Result<bool> add_quantized_residual(int n, Node& conv, Node& add, int out) {
    if (add.desc.domain != "com.microsoft" || add.desc.op != "QLinearAdd" || add.inputs.size() < 7) return false;
    const std::size_t own = add.inputs[0] == out ? 0 : 3, others = 3 - own;
    const int other = add.inputs[others];
    if (add.inputs[own] != out || other == kAbsent || other == out || !graph_.values[other].known) return false;
    if (!alike(out, other)) return false;
    const Node* const later = later_producer(n, other);
    if (later != nullptr && takes_quantized_residual(*later)) return false;
    const auto made = by_constants(conv, 6), read = by_constants(add, own + 1), z = by_constants(add, others + 1),
               sum = by_constants(add, 6);
    if (!made || !read || !z || !sum || *made != *read) return false;
    Node before = conv;
    conv.fusion.sum = {{read->first / sum->first, read->second, z->first / sum->first, z->second}, sum->second};
    conv.fusion.residual = add_fused_input(conv, other);
    absorb(conv, std::move(before), add);
    return true;
  }

  bool alike(int a, int b) const {
    const TensorDesc &first = graph_.values[a].desc, &second = graph_.values[b].desc;
    return first.dims == second.dims && first.type == second.type;
  }

  // Of two convolutions that are added the later one takes the sum: the earlier one's result is there by then.
  const Node* later_producer(int n, int value) const {
    const int producer = producers_[value];
    if (producer <= n || readers_[value].size() != 1 || graph_.is_output(value)) return nullptr;
    return &graph_.nodes[producer];
  }

  // A positive scale, at this index of the node's inputs, and the zero point behind it, where they are constants.
  std::optional<std::pair<double, std::int32_t>> by_constants(const Node& node, std::size_t index) const {
    const auto scale = scalar_constant(graph_, node.inputs[index]);
    const bool has_zero = index + 1 < node.inputs.size() && node.inputs[index + 1] != kAbsent;
    const auto zero = has_zero ? scalar_constant(graph_, node.inputs[index + 1]) : 0;
    if (!scale || !zero || !std::isfinite(*scale) || *scale <= 0) return std::nullopt;
    return std::pair{*scale, static_cast<std::int32_t>(*zero)};
  }

  Result<bool> add_prelu(Node& conv, Node& prelu, int out) {
    if (prelu.inputs.size() != 2 || prelu.inputs[0] != out || prelu.desc.opset < 7) return false;
    const Dims dims = graph_.values[out].desc.dims;
    const auto slopes = channel_constant(graph_, prelu.inputs[1], static_cast<int>(dims.size()), dims[1]);
    if (!slopes) return false;
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(DataType::f32, {dims[1]})));
    for (std::size_t i = 0; i < slopes->size(); ++i) tensor.as<float>()[i] = static_cast<float>((*slopes)[i]);
    const int id = graph_.add_constant(conv.desc.name + ".slopes", std::move(tensor));
    Node before = conv;
    conv.fusion.slopes = add_fused_input(conv, id);
    conv.fusion.activation = Activation{ActivationKind::prelu, 0, 0};
    absorb(conv, std::move(before), prelu);
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
