// The part of a graph that cannot be planned before a run: nodes whose outputs' dims depend on data, and everything
// behind them. Once the values that decide are there, it is prepared as a graph of its own and kept for as long as
// those values and the input shapes stay the same.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/graph.h"
#include "network/session.h"

namespace convoy::network {

class Tail {
 public:
  // `graph` has had its passes; its static nodes are dropped here.
  Tail(const Graph& graph, PrepareSettings settings);

  // Values of the static part (graph inputs among them) that the tail reads, by id; `run` takes them in this order.
  std::span<const int> exports() const { return exports_; }
  // Outputs of the whole graph (by index) that `run` returns, in this order.
  std::span<const int> outputs() const { return outputs_; }
  std::string nodes() const;
  std::size_t node_count() const { return graph_.nodes.size(); }

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> exports);

 private:
  Result<void> prepare(std::span<const HostTensor> exports);

  Graph graph_;
  PrepareSettings settings_;
  std::vector<int> exports_;
  std::vector<bool> by_value_;  // of each export: its value decides, it becomes a constant
  std::vector<int> outputs_;
  std::unique_ptr<Session> session_;
  std::vector<HostTensor> prepared_for_;  // copies of the deciding values; of the others only the descriptions
};

}  // namespace convoy::network
