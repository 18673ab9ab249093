#include "network/tail.h"

#include <algorithm>
#include <cstring>

#include "network/infer.h"
#include "network/lower.h"

namespace convoy::network {
namespace {

bool same_values(const HostTensor& a, const HostTensor& b) {
  return a.desc == b.desc && std::memcmp(a.data.get(), b.data.get(), static_cast<std::size_t>(a.desc.bytes())) == 0;
}

}  // namespace

Tail::Tail(const Graph& graph, PrepareSettings settings) : settings_(std::move(settings)) {
  graph_.name = graph.name;
  std::vector<bool> made_here(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (is_static(graph, node)) continue;
    for (int output : node.outputs) {
      if (output != kAbsent) made_here[output] = true;
    }
    graph_.nodes.push_back(node);
  }
  graph_.values = graph.values;
  for (Value& value : graph_.values) value.constant.reset();
  for (const Node& node : graph_.nodes) {
    const std::vector<int> deciding = value_inputs(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int id = node.inputs[i];
      if (id == kAbsent || made_here[id]) continue;
      if (graph.values[id].constant) {
        graph_.values[id].constant = graph.values[id].constant;
        continue;
      }
      auto at = std::find(exports_.begin(), exports_.end(), id);
      if (at == exports_.end()) {
        exports_.push_back(id);
        by_value_.push_back(false);
        at = exports_.end() - 1;
      }
      if (std::find(deciding.begin(), deciding.end(), static_cast<int>(i)) != deciding.end()) {
        by_value_[static_cast<std::size_t>(at - exports_.begin())] = true;
      }
    }
  }
  for (std::size_t i = 0; i < exports_.size(); ++i) {
    if (!by_value_[i]) graph_.inputs.push_back(exports_[i]);
  }
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    if (!made_here[graph.outputs[k]]) continue;
    graph_.outputs.push_back(graph.outputs[k]);
    outputs_.push_back(static_cast<int>(k));
  }
}

std::string Tail::nodes() const {
  std::string text;
  for (const Node& node : graph_.nodes) {
    for (const std::string& source : node.sources) text += (text.empty() ? "" : "+") + source;
  }
  return text;
}

Result<void> Tail::prepare(std::span<const HostTensor> exports) {
  bool same = session_ != nullptr;
  for (std::size_t i = 0; same && i < exports.size(); ++i) {
    same = by_value_[i] ? same_values(exports[i], prepared_for_[i]) : exports[i].desc == prepared_for_[i].desc;
  }
  if (same) return {};
  session_.reset();
  prepared_for_.clear();
  Graph graph = graph_;
  for (std::size_t i = 0; i < exports.size(); ++i) {
    Value& value = graph.values[exports_[i]];
    value.known = true;
    value.desc = exports[i].desc;
    HostTensor kept{exports[i].desc, nullptr};
    if (by_value_[i]) {
      // What is given lies in memory that the next run overwrites.
      CONVOY_TRY(kept, converted(exports[i], exports[i].desc));
      value.constant = kept;
    }
    prepared_for_.push_back(std::move(kept));
  }
  CONVOY_TRY(session_, prepare_graph(std::move(graph), settings_));
  return {};
}

Result<std::vector<HostTensor>> Tail::run(std::span<const HostTensor> exports) {
  CONVOY_CHECK(prepare(exports));
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < exports.size(); ++i) {
    if (!by_value_[i]) inputs.push_back(exports[i]);
  }
  return session_->run(inputs);
}

}  // namespace convoy::network
