// The part of a graph that cannot be planned before a run: nodes whose outputs' dims depend on data, If and Loop where
// data decides, and everything behind them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/run/dynamic_program.h"

namespace convoy::network {

class DynamicSubgraph {
 public:
  // `graph` has had its passes; its static nodes are left out. Null where there are no others.
  static Result<std::unique_ptr<DynamicSubgraph>> make(const Graph& graph, const PrepareSettings& settings);

  // Values of the static part (graph inputs among them) that the dynamic subgraph reads, by id; `run` takes them in
  // this order.
  std::span<const int> exports() const { return exports_; }
  // Outputs of the whole graph (by index) that `run` returns, in this order.
  std::span<const int> outputs() const { return outputs_; }

  // For reports; `run` adds to a number for each.
  const std::vector<NetworkStep>& rows() const { return program_->rows(); }

  // The outputs have memory of their own. From several threads at once, each with a team of its own.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> exports, ThreadTeam& team,
                                      std::span<double> seconds) const;

 private:
  std::vector<int> exports_;
  std::vector<int> outputs_;
  std::unique_ptr<DynamicProgram> program_;
  std::shared_ptr<Buffers> buffers_ = Buffers::make();
};

}  // namespace convoy::network
