// For tests of passes: what they make of a graph, and that its outputs stay the same.
#pragma once

#include <gtest/gtest.h>

#include "network/graph/pass.h"
#include "network/testing/graphs.h"

namespace convoy::network {

using ops::Attribute;
using Ints = std::vector<std::int64_t>;
using Ops = std::vector<std::string>;

inline Attribute ints(Ints values) { return values; }

// The graph after all passes but those skipped.
inline Graph passed(Graph graph, std::vector<std::string> skip = {}) {
  const auto team = make_cpu_team(1);
  const auto log = run_passes(graph, PassContext{*team, cpu_features()}, skip);
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message);
  return graph;
}

inline Ops ops_of(const Graph& graph) {
  Ops names;
  for (const Node& node : graph.nodes) names.push_back(node.desc.op);
  return names;
}

// With all passes, without one of them, and with none but the order.
inline void expect_same_without(const std::string& pass, const Graph& graph, double low = -2, double high = 2) {
  const auto inputs = inputs_for(graph, low, high);
  const auto with = run_graph(graph, inputs);
  const auto without = run_graph(graph, inputs, {pass});
  const auto plain = run_graph(graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), graph.outputs.size());
  ASSERT_EQ(without.size(), with.size());
  ASSERT_EQ(plain.size(), with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    expect_close(with[i], without[i]);
    expect_close(with[i], plain[i]);
  }
  if (pass != "conv_fusion") return;
  for (const int fusions : {1, 9}) {
    const auto unfused = run_unfused(graph, inputs, fusions);
    ASSERT_EQ(unfused.size(), with.size());
    for (std::size_t i = 0; i < with.size(); ++i) expect_close(unfused[i], with[i]);
  }
}

inline int conv(GraphBuilder& b, int x, std::int64_t in, std::int64_t out, std::int64_t kernel, bool bias = true) {
  std::vector<int> inputs = {x, b.constant(spread({out, in, kernel, kernel}, -0.5, 0.4))};
  if (bias) inputs.push_back(b.constant(spread({out}, -1, 1)));
  return b.node("Conv", inputs, {{"pads", ints(Ints(4, kernel / 2))}});
}

}  // namespace convoy::network
