// Patterns of several nodes that mean one: from their last node back to what they read.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

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

  // Node `last` becomes this one, and what is inside the match goes.
  void replace(int last, std::vector<int> inputs, std::string op, std::map<std::string, ops::Attribute> attributes) {
    Node& node = graph_.nodes[last];
    std::vector<int> inner = inner_;
    std::sort(inner.begin(), inner.end());
    std::vector<std::string> sources;
    for (int index : inner) {
      sources.insert(sources.end(), graph_.nodes[index].sources.begin(), graph_.nodes[index].sources.end());
      graph_.nodes[index].erased = true;
    }
    node.sources.insert(node.sources.begin(), sources.begin(), sources.end());
    node.inputs = std::move(inputs);
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

}  // namespace convoy::network
