// A network of a test's graph, on engines of the test.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/network.h"
#include "network/prepare/session.h"

namespace convoy::network {

class OnEngines final : public Network {
 public:
  OnEngines(Graph graph, std::span<const Engine* const> engines) : graph_(std::move(graph)), engines_(engines) {}
  const std::string& name() const override { return graph_.name; }
  const std::vector<NetworkValue>& inputs() const override { return graph_.input_info; }
  const std::vector<NetworkValue>& outputs() const override { return graph_.output_info; }
  int node_count() const override { return 0; }
  const ModelInfo& info() const override { return graph_.info; }
  Result<std::unique_ptr<Session>> prepare(std::span<const TensorDesc>, const NetworkOptions& options,
                                           const SelectionProgress&) const override {
    CONVOY_TRY(std::unique_ptr<Session> session, prepare_graph(graph_, {.options = options, .engines = engines_}));
    return session;
  }
  Result<std::unique_ptr<SwitchableSession>> prepare_switchable(std::span<const TensorDesc>, const NetworkOptions&,
                                                                std::span<const ConvolutionCandidates>) const override {
    return Error{ErrorCode::unsupported, "not here"};
  }
  Result<NetworkPlan> plan(std::span<const TensorDesc>, const NetworkOptions& options,
                           const SelectionProgress&) const override {
    return plan_of(graph_, {.options = options, .engines = engines_});
  }
  Result<std::vector<NetworkConvolution>> convolutions(std::span<const TensorDesc>,
                                                       const NetworkOptions&) const override {
    return Error{ErrorCode::unsupported, "not here"};
  }

 private:
  Graph graph_;
  std::span<const Engine* const> engines_;
};

}  // namespace convoy::network
