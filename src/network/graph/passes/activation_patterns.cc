// Activations that exporters write out in several nodes, as the one node they mean.
#include <algorithm>
#include <cmath>

#include "network/graph/pass.h"
#include "network/graph/passes/matcher.h"

namespace convoy::network {
namespace {

constexpr double kSqrt2 = 1.4142135623730951;

struct ActivationMatch {
  std::string op;
  int x = kAbsent;
  std::map<std::string, ops::Attribute> attributes;
};

// hard_sigmoid(x) = min(max(x + 3, 0), 6) / 6
std::optional<ActivationMatch> match_hard_sigmoid(Matcher& m, const Node& node) {
  if (node.desc.op != "Div" && node.desc.op != "Mul") return std::nullopt;
  const int clipped = node.desc.op == "Div" ? m.beside(node, 6, false) : m.beside(node, 1.0 / 6);
  const int x = clipped == kAbsent ? kAbsent : m.unclipped(clipped);
  if (x == kAbsent) return std::nullopt;
  return ActivationMatch{"HardSigmoid", x, {{"alpha", 1.0 / 6}, {"beta", 0.5}}};
}

// (x * min(max(x + 3, 0), 6)) / 6
std::optional<ActivationMatch> match_scaled_hard_swish(Matcher& m, const Node& node) {
  if (node.desc.op != "Div" && node.desc.op != "Mul") return std::nullopt;
  const int product = node.desc.op == "Div" ? m.beside(node, 6, false) : m.beside(node, 1.0 / 6);
  if (product == kAbsent) return std::nullopt;
  const Node* mul = m.behind(product, "Mul");
  if (mul == nullptr || mul->inputs.size() != 2) return std::nullopt;
  const std::size_t mark = m.mark();
  for (int side : {0, 1}) {
    m.back_to(mark);
    const int x = mul->inputs[side];
    if (m.unclipped(mul->inputs[1 - side]) == x && x != kAbsent) return ActivationMatch{"HardSwish", x, {}};
  }
  return std::nullopt;
}

// x * gate(x)
std::optional<ActivationMatch> match_gated(Matcher& m, const Node& node) {
  if (node.desc.op != "Mul" || node.inputs.size() != 2) return std::nullopt;
  for (int side : {0, 1}) {
    const int x = node.inputs[side];
    const int gate = node.inputs[1 - side];
    m.start();
    if (const Node* sigmoid = m.behind(gate, "Sigmoid"); sigmoid && sigmoid->inputs[0] == x) {
      return ActivationMatch{"Swish", x, {{"alpha", 1.0}}};
    }
    m.start();
    const Node* hard = m.behind(gate, "HardSigmoid");
    if (hard && hard->inputs[0] == x && m.real_is(*hard, "alpha", 0.2, 1.0 / 6) && m.real_is(*hard, "beta", 0.5, 0.5)) {
      return ActivationMatch{"HardSwish", x, {}};
    }
    m.start();
    if (const Node* tanh = m.behind(gate, "Tanh")) {
      const Node* softplus = m.behind(tanh->inputs[0], "Softplus");
      if (softplus && softplus->inputs[0] == x) return ActivationMatch{"Mish", x, {}};
    }
  }
  return std::nullopt;
}

// The x of 1 + erf(x / sqrt(2)), or kAbsent.
int match_erf(Matcher& m, int value) {
  const Node* add = m.behind(value, "Add");
  const int inner = add == nullptr ? kAbsent : m.beside(*add, 1);
  const Node* erf = inner == kAbsent ? nullptr : m.behind(inner, "Erf");
  return erf == nullptr ? kAbsent : m.undivided(erf->inputs[0], kSqrt2);
}

// x/2 * (1 + erf(x/sqrt(2))), the factors in any order
std::optional<ActivationMatch> match_gelu(Matcher& m, const Node& node) {
  if (node.desc.op != "Mul" || node.inputs.size() != 2) return std::nullopt;
  if (const int product = m.beside(node, 0.5); product != kAbsent) {  // (x * (1 + erf)) * 0.5
    const Node* mul = m.behind(product, "Mul");
    const std::size_t mark = m.mark();
    for (int side : {0, 1}) {
      m.back_to(mark);
      if (mul != nullptr && mul->inputs[side] != kAbsent && match_erf(m, mul->inputs[1 - side]) == mul->inputs[side]) {
        return ActivationMatch{"Gelu", mul->inputs[side], {}};
      }
    }
  }
  for (int side : {0, 1}) {
    m.start();
    if (const int x = match_erf(m, node.inputs[1 - side]); x != kAbsent) {  // (x * 0.5) * (1 + erf)
      if (m.undivided(node.inputs[side], 2) == x) return ActivationMatch{"Gelu", x, {}};
    }
    m.start();
    if (const Node* half = m.behind(node.inputs[1 - side], "Mul")) {  // x * (0.5 * (1 + erf))
      const int sum = m.beside(*half, 0.5);
      if (sum != kAbsent && match_erf(m, sum) == node.inputs[side])
        return ActivationMatch{"Gelu", node.inputs[side], {}};
    }
  }
  return std::nullopt;
}

// 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))), the factors in any order
std::optional<ActivationMatch> match_gelu_tanh(Matcher& m, const Node& node) {
  if (node.desc.op != "Mul" || node.inputs.size() != 2) return std::nullopt;
  const auto cube_of = [&](int value) {  // of 0.044715 * x^3
    const Node* const scaled = m.behind(value, "Mul");
    const Node* const pow = scaled == nullptr ? nullptr : m.behind(m.beside(*scaled, 0.044715), "Pow");
    return pow == nullptr ? kAbsent : m.beside(*pow, 3, false);
  };
  const auto argument_of = [&](int value) {  // of 1 + tanh(..)
    const Node* const add = m.behind(value, "Add");
    const Node* const tanh = add == nullptr ? nullptr : m.behind(m.beside(*add, 1), "Tanh");
    const Node* const scaled = tanh == nullptr ? nullptr : m.behind(tanh->inputs[0], "Mul");
    const Node* const sum = scaled == nullptr ? nullptr : m.behind(m.beside(*scaled, 0.7978845608028654), "Add");
    if (sum == nullptr) return kAbsent;
    const std::size_t mark = m.mark();
    for (const int side : {0, 1}) {
      m.back_to(mark);
      const int x = sum->inputs[side];
      if (x != kAbsent && cube_of(sum->inputs[1 - side]) == x) return x;
    }
    return kAbsent;
  };
  const auto found = [](int x) { return ActivationMatch{"Gelu", x, {{"approximate", std::string("tanh")}}}; };
  const auto halved = [&](int value) {
    const Node* const half = m.behind(value, "Mul");
    return half == nullptr ? kAbsent : m.beside(*half, 0.5);
  };
  if (const int product = m.beside(node, 0.5); product != kAbsent) {  // (x * (1 + tanh)) * 0.5
    const Node* const mul = m.behind(product, "Mul");
    const std::size_t mark = m.mark();
    for (const int side : {0, 1}) {
      m.back_to(mark);
      if (mul != nullptr && mul->inputs[side] != kAbsent && argument_of(mul->inputs[1 - side]) == mul->inputs[side])
        return found(mul->inputs[side]);
    }
  }
  for (const int side : {0, 1}) {
    m.start();
    const int x = argument_of(node.inputs[1 - side]);  // (x * 0.5) * (1 + tanh)
    if (x != kAbsent && halved(node.inputs[side]) == x) return found(x);
    m.start();
    const int sum = halved(node.inputs[1 - side]);  // x * (0.5 * (1 + tanh))
    if (sum != kAbsent && argument_of(sum) == node.inputs[side]) return found(node.inputs[side]);
  }
  return std::nullopt;
}

}  // namespace

Result<int> activation_patterns(Graph& graph, const PassContext&) {
  int changes = 0;
  Matcher matcher(graph);
  constexpr decltype(&match_gated) kPatterns[] = {match_hard_sigmoid, match_scaled_hard_swish, match_gated, match_gelu,
                                                  match_gelu_tanh};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto pattern : kPatterns) {
      const Node& node = graph.nodes[n];
      if (node.erased || !node.desc.domain.empty() || node.desc.opset < 7) break;
      matcher.start();
      auto found = pattern(matcher, node);
      if (!found || found->x == kAbsent || !matcher.closed(static_cast<int>(n))) continue;
      if (ops::find_operator("", found->op) == nullptr) continue;
      matcher.replace(static_cast<int>(n), {found->x}, found->op, std::move(found->attributes));
      ++changes;
    }
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
