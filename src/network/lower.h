// From a graph whose passes have run to a program. Nodes whose outputs are not known are left to the caller.
#pragma once

#include <span>

#include "network/graph.h"
#include "network/program.h"
#include "network/selector.h"

namespace convoy::network {

struct Lowered {
  Program program;
  // A slot (packed nchw) for each value of `exports` asked for: alive until the end of the program.
  std::vector<int> export_slots;
};

// Lowers the nodes whose outputs are known, in the graph's order. Constants are released from the graph as soon as
// their last reader has been lowered, but for those in `exports` (values that later nodes read).
Result<Lowered> lower(Graph& graph, const std::vector<Layout>& layouts, std::span<const int> exports,
                      Selector& selector);

// Whether a node can be lowered: its outputs' types and dims are known.
bool is_static(const Graph& graph, const Node& node);

// The names of the ONNX nodes that a step computes: "conv1+bn1+relu1".
std::string joined(const std::vector<std::string>& names);

}  // namespace convoy::network
