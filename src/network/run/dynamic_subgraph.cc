#include "network/run/dynamic_subgraph.h"

#include <algorithm>

#include "network/graph/infer.h"

namespace convoy::network {

Result<std::unique_ptr<DynamicSubgraph>> DynamicSubgraph::make(const Graph& graph, const PrepareSettings& settings) {
  Graph own;
  own.name = graph.name;
  own.values = graph.values;
  for (Value& value : own.values) {
    value.constant.reset();
    value.known = false;
  }
  std::vector<bool> made_here(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (is_static(graph, node)) continue;
    for (const int output : node.outputs) {
      if (output != kAbsent) made_here[output] = true;
    }
    own.nodes.push_back(node);
  }
  auto dynamic_subgraph = std::make_unique<DynamicSubgraph>();
  if (own.nodes.empty()) return std::unique_ptr<DynamicSubgraph>();
  for (const Node& node : own.nodes) {
    for (const int id : node.inputs) {
      if (id == kAbsent || made_here[id]) continue;
      if (graph.values[id].constant) {
        own.values[id] = graph.values[id];
      } else if (std::ranges::find(dynamic_subgraph->exports_, id) == dynamic_subgraph->exports_.end()) {
        dynamic_subgraph->exports_.push_back(id);
      }
    }
  }
  own.inputs = dynamic_subgraph->exports_;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    if (!made_here[graph.outputs[k]]) continue;
    own.outputs.push_back(graph.outputs[k]);
    dynamic_subgraph->outputs_.push_back(static_cast<int>(k));
  }
  CONVOY_TRY(dynamic_subgraph->program_, DynamicProgram::make(std::move(own), settings));
  return dynamic_subgraph;
}

Result<std::vector<HostTensor>> DynamicSubgraph::run(std::span<const HostTensor> exports, ThreadTeam& team,
                                                     std::span<double> seconds) const {
  std::vector<const HostTensor*> given;
  for (const HostTensor& each : exports) given.push_back(&each);
  CONVOY_TRY(std::vector<HostTensor> outputs, program_->run(given, {team, *buffers_}, seconds));
  for (HostTensor& output : outputs) {
    if (output.data.use_count() == 1) continue;
    CONVOY_TRY(output, converted(output, output.desc));
  }
  return outputs;
}

}  // namespace convoy::network
