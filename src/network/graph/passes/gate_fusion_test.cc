// A product with a gate becomes part of the 1x1 convolution behind it.
#include <algorithm>

#include "network/graph/conv_node.h"
#include "network/graph/unfuse.h"
#include "network/testing/passes.h"

namespace convoy::network {
namespace {

// x * gate -> 1x1 convolution, with what a test changes of it.
struct Gated {
  Dims x = {2, 6, 5, 5}, gate = {2, 6, 1, 1};
  std::int64_t kernel = 1, groups = 1, stride = 1;
  bool gate_first = false, constant_gate = false, read_twice = false;
};
Graph graph_of(const Gated& given) {
  GraphBuilder b;
  const int x = b.node("Relu", {b.input("x", given.x)});
  const int gate =
      given.constant_gate ? b.constant(spread(given.gate, 0, 1)) : b.node("Sigmoid", {b.input("s", given.gate)});
  const int product = b.node("Mul", given.gate_first ? std::vector{gate, x} : std::vector{x, gate});
  const std::int64_t pad = given.kernel / 2, stride = given.stride;
  const int y =
      b.node("Conv", {product, b.constant(spread({4, given.x[1] / given.groups, given.kernel, given.kernel}, -1, 1))},
             {{"group", given.groups}, {"pads", ints({pad, pad, pad, pad})}, {"strides", ints({stride, stride})}});
  b.output(b.node("Relu", {y}));
  if (given.read_twice) b.output(b.node("Tanh", {product}));
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  return b.graph;
}

Graph passed_on_a_gpu(Graph graph) {
  const auto team = make_cpu_team(1);
  const auto log = run_passes(graph, PassContext{*team, cpu_features(), true});
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message);
  return graph;
}

TEST(GateFusion, AProductBecomesPartOfTheConvolution) {
  for (const bool gate_first : {false, true}) {
    const Graph graph = passed_on_a_gpu(graph_of({.gate_first = gate_first}));
    ASSERT_EQ(ops_of(graph), (Ops{"Relu", "Sigmoid", "Conv"}));
    const Node& conv = graph.nodes.back();
    EXPECT_TRUE(conv.conv->problem.gate);
    EXPECT_EQ(conv.inputs[0], graph.nodes[0].outputs[0]);
    EXPECT_EQ(conv.inputs[static_cast<std::size_t>(conv.fusion.gate)], graph.nodes[1].outputs[0]);
    EXPECT_EQ(joined(conv.sources), "n2+n3+n4");
    Ops parts;
    for (const Node* part : parts_of(conv)) parts.push_back(part->desc.op);
    EXPECT_EQ(parts, (Ops{"Mul", "Conv", "Relu"}));
    EXPECT_FALSE(without_gate(conv).conv->problem.gate);
    EXPECT_EQ(without_gate(conv).conv->problem.epilogue.activation.kind, ActivationKind::relu);
    Graph undone = graph;
    unfuse(undone, std::vector{0, 0, 1});
    EXPECT_EQ(ops_of(undone), (Ops{"Relu", "Sigmoid", "Mul", "Conv"}));
    EXPECT_TRUE(check(undone).ok());
    undone = graph;
    unfuse(undone, std::vector{0, 0, 2});
    EXPECT_EQ(ops_of(undone), (Ops{"Relu", "Sigmoid", "Mul", "Conv", "Relu"}));
    EXPECT_TRUE(check(undone).ok());
  }
}

TEST(GateFusion, OtherProductsStay) {
  for (const Gated& given : {Gated{.constant_gate = true}, Gated{.kernel = 3}, Gated{.groups = 2}, Gated{.stride = 2},
                             Gated{.read_twice = true}, Gated{.gate = {1, 6, 1, 1}}, Gated{.gate = {2, 1, 5, 5}},
                             Gated{.gate = {2, 6, 5, 5}}, Gated{.gate = {2, 6, 1, 5}}}) {
    const Graph graph = passed_on_a_gpu(graph_of(given));
    EXPECT_EQ(std::ranges::count(ops_of(graph), "Mul"), 1);
  }
  EXPECT_EQ(std::ranges::count(ops_of(passed(graph_of({}))), "Mul"), 1) << "on the processor";
}

}  // namespace
}  // namespace convoy::network
