// A graph whose shapes are known only when it runs: the dynamic subgraph of a network, or the body of an If or a Loop.
// What depends on shapes is planned when they are there, node by node, and kept for the next run with the same ones;
// convolutions and products with constant matrices are prepared together with what follows them, as a network of their
// own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/run/dynamic_step.h"

namespace convoy::network {

class DynamicProgram {
 public:
  // Passes that need no shapes, then its steps. Nothing of the graph's inputs needs to be known; those that are
  // constants already are not looked at by `run`.
  static Result<std::unique_ptr<DynamicProgram>> make(Graph graph, const PrepareSettings& settings);

  // Outputs may share memory with inputs, with constants and with each other. `seconds`, where given: one a row, added
  // to. From several threads at once, each with a team of its own.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs, const DynamicContext& context,
                                      std::span<double> seconds = {}) const;

  // For reports: operators that follow each other are one row.
  const std::vector<NetworkStep>& rows() const { return rows_; }
  std::size_t node_count() const { return graph_.nodes.size(); }

 private:
  struct Unit {
    std::unique_ptr<DynamicStep> step;
    std::vector<int> inputs, outputs;  // values
    std::vector<int> done_with;        // that nobody reads behind it
    int row = 0;
  };

  DynamicProgram(Graph graph, const PrepareSettings& settings) : graph_(std::move(graph)), settings_(settings) {}

  Result<void> make_units();
  Result<void> add_node(const Node& node);
  void add_island(std::span<const int> nodes, const std::vector<std::vector<int>>& readers);
  void add_unit(std::unique_ptr<DynamicStep> step, std::vector<int> inputs, std::vector<int> outputs,
                const std::vector<std::string>& names, bool is_operator);
  void find_last_reads();

  Graph graph_;
  PrepareSettings settings_;
  std::vector<Unit> units_;
  std::vector<NetworkStep> rows_;
  bool last_is_operators_ = false;  // the last row, that the next operator joins
  int names_in_row_ = 0;
};

}  // namespace convoy::network
