// The passes that leave bytes as bytes between quantized operators: dequantize_sinking, byte_tables.
#include <algorithm>

#include "network/testing/quantized.h"

namespace convoy::network {
namespace {

TEST(DequantizeSinking, BehindWhatMovesValues) {
  QuantizedBuilder b;
  const int x = b.dq(b.input("x", {1, 4, 6, 6}, kU8), 0.02, 100);
  const int pool = b.qdq(b.node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}), 0.02, 100);
  const int padded = b.node("Pad", {pool, b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 0, 0, 0, 0, 1}))});
  const int turned = b.qdq(b.node("Transpose", {padded}, {{"perm", Ints{0, 2, 3, 1}}}), 0.02, 100);
  b.output(b.node("Reshape", {turned, b.constant(tensor_of(DataType::s64, {2}, {4, -1}))}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"MaxPool", "Pad", "Transpose", "Reshape", "DequantizeLinear"}));
  const std::vector<HostTensor> inputs = {spread({1, 4, 6, 6}, 0, 255, kU8)};
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), 1u);
  expect_close(with[0], without[0], 0, 0);
}

// A value that is given, and that no element becomes.
TEST(DequantizeSinking, PadsWithNoValue) {
  QuantizedBuilder b;
  const int x = b.qdq(b.input("x", {1, 2, 3, 3}), 0.02, 100);
  const int pads = b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 0, 0, 0, 0, 1}));
  b.output(b.node("Pad", {x, pads, b.scalar(DataType::f32, 1.5)}, {{"mode", std::string("reflect")}}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"QuantizeLinear", "Pad", "DequantizeLinear"}));
  const auto inputs = inputs_for(b.graph, -2, 2);
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), 1u);
  expect_close(with[0], without[0], 0, 0);
}

TEST(DequantizeSinking, PadsWithOtherValuesStay) {
  QuantizedBuilder b;
  const int x = b.dq(b.input("x", {1, 2, 3, 3}, kU8), 0.02, 100);
  b.output(b.node(
      "Pad", {x, b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 0, 0, 0, 0, 1})), b.scalar(DataType::f32, 7)}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"DequantizeLinear", "Pad"}));
}

TEST(DequantizeSinking, TablesForFunctionsAndOtherScales) {
  for (const char* op : {"Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Neg", ""}) {
    QuantizedBuilder b;
    int y = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
    if (*op != 0) y = b.node(op, {y}, {}, 14);
    b.output(b.q(y, 0.03, -4, kS8));
    EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Lookup"}) << op;
    const std::vector<HostTensor> inputs = {spread({1, 2, 8, 16}, 0, 255, kU8)};
    const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
    ASSERT_EQ(with.size(), 1u);
    expect_close(with[0], without[0], 0, 0);
  }
}

// x * sigmoid(x), as quantizers write it: both factors are functions of one tensor of bytes.
TEST(ByteTables, FunctionsOfOneTensor) {
  QuantizedBuilder b;
  const int x = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
  const int s = b.qdq(b.node("Sigmoid", {x}, {}, 14), 1.0 / 255, 0);
  const int swish = b.qdq(b.node("Mul", {x, s}), 0.02, 14);
  const int twice = b.qdq(b.node("Add", {swish, x}), 0.06, 90);
  b.output(b.q(b.node("LeakyRelu", {twice}), 0.03, -4, kS8));
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Lookup"});
  const std::vector<HostTensor> inputs = {spread({1, 2, 8, 16}, 0, 255, kU8)};
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), 1u);
  expect_close(with[0], without[0], 0, 0);
}

// A factor of another tensor, or of other elements of the same one, is no function of it.
TEST(ByteTables, OthersStay) {
  QuantizedBuilder b;
  const int x = b.dq(b.input("x", {1, 4, 8, 8}, kU8), 0.05, 100), z = b.dq(b.input("z", {1, 4, 8, 8}, kU8), 0.05, 90);
  const int s = b.qdq(b.node("Sigmoid", {z}, {}, 14), 1.0 / 255, 0);
  const int turned = b.qdq(b.node("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2}}}), 0.05, 100);
  b.output(b.q(b.node("Mul", {x, s}), 0.02, 14));
  b.output(b.q(b.node("Mul", {x, turned}), 0.02, 14));
  const Ops ops = ops_of(passed(b.graph));
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "QLinearMul"), 2);
  const std::vector<HostTensor> inputs = {spread({1, 4, 8, 8}, 0, 255, kU8), spread({1, 4, 8, 8}, 255, 0, kU8)};
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), 2u);
  for (int i = 0; i < 2; ++i) expect_close(with[i], without[i], 0, 0);
}

// What is between two tables stays where something else reads it, with the values it had.
TEST(ByteTables, WhatOthersReadStays) {
  const auto sigmoid = [](QuantizedBuilder& b, int x) { return b.qdq(b.node("Sigmoid", {x}, {}, 14), 1.0 / 255, 0); };
  const std::vector<HostTensor> inputs = {spread({1, 2, 8, 16}, 0, 255, kU8)};
  const auto expect_like_without = [&](const QuantizedBuilder& b) {
    const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
    ASSERT_EQ(with.size(), b.graph.outputs.size());
    for (std::size_t i = 0; i < with.size(); ++i) expect_close(with[i], without[i], 0, 0);
  };
  {  // an output of the graph
    QuantizedBuilder b;
    const int x = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
    const int bytes = b.q(b.node("Sigmoid", {x}, {}, 14), 1.0 / 255, 0);
    b.output(bytes);
    b.output(b.q(b.node("LeakyRelu", {b.dq(bytes, 1.0 / 255, 0)}), 0.03, -4, kS8));
    EXPECT_EQ(passed(b.graph).nodes.size(), 2u);
    expect_like_without(b);
  }
  {  // two readers, of which one is no table
    QuantizedBuilder b;
    const int x = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
    const int s = sigmoid(b, x);
    b.output(b.q(b.node("LeakyRelu", {s}), 0.03, -4, kS8));
    b.output(b.q(b.node("MaxPool", {s}, {{"kernel_shape", Ints{2, 2}}}), 1.0 / 255, 0));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(ops.size(), 3u);
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "MaxPool"), 1);
    expect_like_without(b);
  }
  {  // two readers that are tables: nothing reads it any more
    QuantizedBuilder b;
    const int x = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
    const int s = sigmoid(b, x);
    b.output(b.q(b.node("LeakyRelu", {s}), 0.03, -4, kS8));
    b.output(b.q(b.node("Mul", {s, x}), 0.02, 14));
    EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Lookup", "Lookup"}));
    expect_like_without(b);
  }
}

// Two ways from one tensor that meet: the table names every node it stands for, once.
TEST(ByteTables, Diamond) {
  QuantizedBuilder b;
  const int x = b.dq(b.input("x", {1, 2, 8, 16}, kU8), 0.05, 100);
  const int s = b.qdq(b.node("Sigmoid", {x}, {}, 14), 1.0 / 255, 0);
  const int left = b.qdq(b.node("LeakyRelu", {s}), 0.004, 20), right = b.qdq(b.node("Mul", {s, x}), 0.02, 14);
  b.output(b.q(b.node("Add", {left, right}), 0.03, 30));
  const Graph graph = passed(b.graph);
  ASSERT_EQ(ops_of(graph), Ops{"Lookup"});
  std::vector<std::string> sources = graph.nodes[0].sources;
  std::ranges::sort(sources);
  EXPECT_EQ(std::ranges::adjacent_find(sources), sources.end());
  for (const Node& node : b.graph.nodes) {
    if (node.desc.op == "QuantizeLinear" || node.desc.op == "DequantizeLinear") continue;
    EXPECT_TRUE(std::ranges::binary_search(sources, node.desc.name)) << node.desc.name;
  }
  const std::vector<HostTensor> inputs = {spread({1, 2, 8, 16}, 0, 255, kU8)};
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), 1u);
  expect_close(with[0], without[0], 0, 0);
}

TEST(DequantizeSinking, ConcatOfEqualAndOfDifferentParts) {
  for (const double scale : {0.02, 0.03}) {
    QuantizedBuilder b;
    const int x = b.input("x", {1, 2, 3, 3}, kU8), z = b.input("z", {1, 3, 3, 3}, kU8);
    const int y = b.node("Concat", {b.dq(x, 0.02, 10), b.dq(z, scale, 10)}, {{"axis", std::int64_t{1}}});
    b.output(b.q(y, 0.02, 10));
    EXPECT_EQ(ops_of(passed(b.graph)), Ops{scale == 0.02 ? "Concat" : "QLinearConcat"});
    const std::vector<HostTensor> inputs = {spread({1, 2, 3, 3}, 0, 255, kU8), spread({1, 3, 3, 3}, 0, 255, kU8)};
    const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
    ASSERT_EQ(with.size(), 1u);
    expect_close(with[0], without[0], 0, 0);
  }
}

}  // namespace
}  // namespace convoy::network
