// Activations that exporters write out in several nodes, as the one node they mean.
#include <algorithm>
#include <cmath>

#include "network/graph/pass.h"

namespace convoy::network {
namespace {

class Matcher {
 public:
  explicit Matcher(Graph& graph) : graph_(graph), producers_(graph.producers()), readers_(graph.readers()) {}

  // The node behind `value` where it is of this kind; remembered as part of the match.
  const Node* behind(int value, std::string_view op) {
    if (value == kAbsent || producers_[value] == kAbsent) return nullptr;
    const int index = producers_[value];
    const Node& node = graph_.nodes[index];
    if (node.erased || node.desc.op != op || !node.desc.domain.empty() || node.desc.opset < 7) return nullptr;
    if (node.outputs[0] != value) return nullptr;
    inner_.push_back(index);
    return &node;
  }

  // For a two-input node, the other operand of a constant that is near `wanted`; kAbsent where there is none.
  int beside(const Node& node, double wanted, bool either_side = true) const {
    if (node.inputs.size() != 2) return kAbsent;
    for (int side : {1, 0}) {
      if (side == 0 && !either_side) break;
      const auto constant = scalar_constant(graph_, node.inputs[side]);
      const HostTensor* tensor = graph_.constant_of(node.inputs[side]);
      // A constant of a higher rank than the data would add dims.
      if (!constant || std::abs(*constant - wanted) > 1e-6 * std::abs(wanted)) continue;
      const int other = node.inputs[1 - side];
      if (other == kAbsent || !graph_.values[other].known) continue;
      if (tensor->desc.rank() <= graph_.values[other].desc.rank()) return other;
    }
    return kAbsent;
  }

  // value = x / divisor, written as Div or Mul.
  int undivided(int value, double divisor) {
    const std::size_t mark = inner_.size();
    if (const Node* div = behind(value, "Div")) {
      if (const int x = beside(*div, divisor, false); x != kAbsent) return x;
    }
    inner_.resize(mark);
    if (const Node* mul = behind(value, "Mul")) {
      if (const int x = beside(*mul, 1 / divisor); x != kAbsent) return x;
    }
    inner_.resize(mark);
    return kAbsent;
  }

  // value = min(max(x + 3, 0), 6)
  int unclipped(int value) {
    const std::size_t mark = inner_.size();
    const Node* clip = behind(value, "Clip");
    if (clip != nullptr && clip_is(*clip, 0, 6)) {
      if (const Node* add = behind(clip->inputs[0], "Add")) {
        if (const int x = beside(*add, 3); x != kAbsent) return x;
      }
    }
    inner_.resize(mark);
    return kAbsent;
  }

  bool clip_is(const Node& clip, double low, double high) const {
    if (clip.desc.opset < 11) {
      const auto min = clip.desc.real("min", NAN);
      const auto max = clip.desc.real("max", NAN);
      return min.ok() && max.ok() && *min == low && *max == high;
    }
    if (clip.inputs.size() != 3) return false;
    return scalar_constant(graph_, clip.inputs[1]) == low && scalar_constant(graph_, clip.inputs[2]) == high;
  }

  bool real_is(const Node& node, std::string_view attribute, double fallback, double wanted) const {
    const auto value = node.desc.real(attribute, fallback);
    return value.ok() && std::abs(*value - wanted) < 1e-6;
  }

  void start() { inner_.clear(); }
  std::size_t mark() const { return inner_.size(); }
  void back_to(std::size_t mark) { inner_.resize(mark); }

  // Whether nothing outside the match reads what would disappear.
  bool closed(int last) const {
    for (int index : inner_) {
      for (int output : graph_.nodes[index].outputs) {
        if (output == kAbsent) continue;
        if (graph_.is_output(output)) return false;
        for (int reader : readers_[output]) {
          if (reader != last && std::find(inner_.begin(), inner_.end(), reader) == inner_.end()) return false;
        }
      }
    }
    return true;
  }

  void replace(int last, int x, std::string op, std::map<std::string, ops::Attribute> attributes) {
    Node& node = graph_.nodes[last];
    std::vector<int> inner = inner_;
    std::sort(inner.begin(), inner.end());
    std::vector<std::string> sources;
    for (int index : inner) {
      sources.insert(sources.end(), graph_.nodes[index].sources.begin(), graph_.nodes[index].sources.end());
      graph_.nodes[index].erased = true;
    }
    node.sources.insert(node.sources.begin(), sources.begin(), sources.end());
    node.inputs = {x};
    node.desc.op = std::move(op);
    node.desc.attributes = std::move(attributes);
    node.desc.opset = std::max(node.desc.opset, 24);  // Swish came last
    producers_ = graph_.producers();
    readers_ = graph_.readers();
  }

 private:
  Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> inner_;
};

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

}  // namespace

Result<int> activation_patterns(Graph& graph, const PassContext&) {
  int changes = 0;
  Matcher matcher(graph);
  constexpr decltype(&match_gated) kPatterns[] = {match_hard_sigmoid, match_scaled_hard_swish, match_gated, match_gelu};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto pattern : kPatterns) {
      const Node& node = graph.nodes[n];
      if (node.erased || !node.desc.domain.empty() || node.desc.opset < 7) break;
      matcher.start();
      auto found = pattern(matcher, node);
      if (!found || found->x == kAbsent || !matcher.closed(static_cast<int>(n))) continue;
      if (ops::find_operator("", found->op) == nullptr) continue;
      matcher.replace(static_cast<int>(n), found->x, found->op, std::move(found->attributes));
      ++changes;
    }
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
