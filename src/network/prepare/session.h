// Executing a graph for concrete input shapes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "convoy/network.h"
#include "network/cost/place.h"
#include "network/graph/graph.h"

namespace convoy::network {

struct PrepareSettings {
  NetworkOptions options;
  SelectionProgress progress = {};
  std::shared_ptr<ThreadTeam> team = {};                   // made where null
  std::span<const ConvolutionCandidates> candidates = {};  // to switch between; read by prepare_graph only
  std::span<const Engine* const> engines = all_engines();  // that convolutions run on
  std::span<const Place> places = {};  // besides the processor, where a plan's lines may put convolutions; outlive it
  bool foresee = false;                // other batches, in the background (foresee.h)
};

// A network of a graph, or the graph's error, within its name.
Result<std::unique_ptr<Network>> network_of(Result<Graph> graph, const std::string& name);

// Passes, layouts, lowering and memory plan. The graph's inputs must be known (Value::known, desc); its weights are
// released once they are packed.
Result<std::unique_ptr<SwitchableSession>> prepare_graph(Graph graph, const PrepareSettings& settings);

// Network::plan: passes and the assignment.
Result<NetworkPlan> plan_of(Graph graph, const PrepareSettings& settings);

// Network::convolutions: passes and layouts only.
Result<std::vector<NetworkConvolution>> list_convolutions(Graph graph, PrepareSettings settings);

}  // namespace convoy::network
