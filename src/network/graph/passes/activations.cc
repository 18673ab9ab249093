#include "network/graph/passes/activations.h"

#include <cmath>
#include <limits>

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

}  // namespace

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

}  // namespace convoy::network
