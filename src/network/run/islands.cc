#include "network/run/islands.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "network/graph/composite.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"

namespace convoy::network {
namespace {

// What gains from being prepared: weights are packed, and what follows is fused and stays in a layout of its choice. A
// composite is put in terms of operators there.
bool is_seed(const Graph& graph, const Node& node) {
  if (!node.bodies.empty()) return false;
  if (conv_form(node) != nullptr || find_composite(node.desc.domain, node.desc.op) != nullptr) return true;
  const auto constant = [&](std::size_t i) { return i < node.inputs.size() && graph.constant_of(node.inputs[i]); };
  if (node.desc.op == "DequantizeLinear") return !constant(0);  // before quantized convolutions
  return (node.desc.op == "MatMul" || node.desc.op == "Gemm") && !constant(0) && constant(1);
}

class Islands {
 public:
  explicit Islands(const Graph& graph) : graph_(graph), from_shapes_(graph.values.size(), false) {}

  std::vector<std::vector<int>> run() {
    producers_ = graph_.producers();
    set_of_.assign(graph_.nodes.size(), -1);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) place(static_cast<int>(n));
    return in_order();
  }

 private:
  struct Set {
    std::vector<int> nodes;
    std::vector<int> before;  // sets that it reads from
    bool island = false;
  };

  int maker(int value) const {
    return value == kAbsent || producers_[value] == kAbsent ? -1 : set_of_[producers_[value]];
  }

  void place(int n) {
    const Node& node = graph_.nodes[n];
    mark(node);
    std::vector<int> makers;
    for (const int input : node.inputs) {
      if (const int set = maker(input); set >= 0) makers.push_back(set);
    }
    std::ranges::sort(makers, std::greater());
    makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
    const bool seed = is_seed(graph_, node);
    int into = -1;
    for (const int set : makers) {
      if (!sets_[set].island || !(seed || follows(node)) || !may_join(set, makers)) continue;
      into = set;
      break;
    }
    if (into < 0) {
      into = static_cast<int>(sets_.size());
      sets_.push_back({.island = seed});
    }
    sets_[into].nodes.push_back(n);
    for (const int set : makers) {
      if (set != into) sets_[into].before.push_back(set);
    }
    set_of_[n] = into;
  }

  // Values that follow from sizes decide like sizes.
  void mark(const Node& node) {
    const ops::Operator* op = ops::find_operator(node.desc.domain, node.desc.op);
    if (op == nullptr || !node.bodies.empty()) return;
    const bool by_shapes = op->folds_from_shapes() && !node.desc.has("trips");
    bool derived = by_shapes || !node.inputs.empty();
    for (const int input : node.inputs) {
      derived &= by_shapes || input == kAbsent || is_known(input);
    }
    for (const int output : node.outputs) {
      if (output != kAbsent) from_shapes_[output] = derived;
    }
  }

  bool is_known(int value) const { return graph_.values[value].constant || from_shapes_[value]; }

  // Whether its outputs' sizes follow from those of its inputs.
  bool follows(const Node& node) const {
    if (!node.bodies.empty()) return false;
    return std::ranges::all_of(value_inputs(node), [&](int i) { return is_known(node.inputs[i]); });
  }

  // Nothing that comes from the island and goes round it comes in again.
  bool may_join(int island, const std::vector<int>& makers) const {
    std::vector<bool> seen(sets_.size(), false);
    std::vector<int> open;
    for (const int set : makers) {
      if (set != island) open.push_back(set);
    }
    while (!open.empty()) {
      const int set = open.back();
      open.pop_back();
      if (set == island) return false;
      if (seen[set]) continue;
      seen[set] = true;
      open.insert(open.end(), sets_[set].before.begin(), sets_[set].before.end());
    }
    return true;
  }

  std::vector<std::vector<int>> in_order() const {
    std::vector<std::vector<int>> after(sets_.size());
    std::vector<int> waits(sets_.size(), 0);
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      for (const int set : sets_[s].before) {
        after[set].push_back(static_cast<int>(s));
        ++waits[s];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      if (waits[s] == 0) ready.push(static_cast<int>(s));
    }
    std::vector<std::vector<int>> ordered;
    while (!ready.empty()) {
      const int set = ready.top();
      ready.pop();
      ordered.push_back(sets_[set].nodes);
      for (const int next : after[set]) {
        if (--waits[next] == 0) ready.push(next);
      }
    }
    return ordered;
  }

  const Graph& graph_;
  std::vector<int> producers_;
  std::vector<bool> from_shapes_;  // by value
  std::vector<int> set_of_;        // by node
  std::vector<Set> sets_;
};

}  // namespace

std::vector<std::vector<int>> islands_of(const Graph& graph) { return Islands(graph).run(); }

bool is_island(const Graph& graph, const std::vector<int>& nodes) { return is_seed(graph, graph.nodes[nodes.front()]); }

}  // namespace convoy::network
