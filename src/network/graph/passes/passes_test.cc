// Each pass: what it changes, what it must leave alone, and that the result is the same with it and without it.
#include "network/testing/passes.h"

#include <algorithm>
#include <limits>

namespace convoy::network {
namespace {

// x -> Cast to the half -> Conv -> Relu -> Cast back, as converters write it, and the half itself as a second output.
Graph half_network(DataType type, bool with_input) {
  const std::int64_t onnx = type == DataType::f16 ? 10 : 16;
  GraphBuilder b;
  const int x =
      with_input ? b.input("x", {1, 3, 9, 9}, type) : b.node("Cast", {b.input("x", {1, 3, 9, 9})}, {{"to", onnx}});
  const int w = b.constant(*converted(spread({4, 3, 3, 3}, -0.5, 0.4), TensorDesc::packed(type, {4, 3, 3, 3})));
  const int y = b.node("Relu", {b.node("Conv", {x, w}, {{"pads", ints(Ints(4, 1))}})});
  b.output(b.node("Cast", {y}, {{"to", std::int64_t{1}}}));
  b.output(y);
  return b.graph;
}

CpuFeatures with_matrix_units(bool has) {
  CpuFeatures cpu = cpu_features();
  cpu.amx_bf16 = has;
  return cpu;
}

TEST(HalfWidening, NetworksRunInF32) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    for (const bool with_input : {true, false}) {
      const Graph given = half_network(type, with_input);
      const Graph wide = with_passes(given, with_matrix_units(false));
      EXPECT_EQ(ops_of(wide), with_input ? (Ops{"Cast", "Conv", "Cast"}) : (Ops{"Conv", "Cast"})) << name_of(type);
      EXPECT_EQ(wide.values[wide.outputs[0]].desc.type, DataType::f32);
      EXPECT_EQ(wide.values[wide.outputs[1]].desc.type, type);
      EXPECT_EQ(wide.values[wide.outputs[1]].name, given.values[given.outputs[1]].name);
      for (const Node& node : wide.nodes) {
        if (node.conv) {
          EXPECT_EQ(node.conv->problem.x.type, DataType::f32);
        }
      }
      const auto inputs = inputs_for(given);
      const auto with = run_graph(given, inputs), without = run_graph(given, inputs, {"half_widening"});
      const double error = type == DataType::f16 ? 1e-3 : 8e-3;
      for (int i = 0; i < 2; ++i) expect_close(with[i], without[i], error);
    }
  }
}

TEST(HalfWidening, MatrixUnitsKeepBf16) {
  const CpuFeatures cpu = with_matrix_units(true);
  EXPECT_EQ(ops_of(with_passes(half_network(DataType::bf16, true), cpu)), (Ops{"Conv", "Cast"}));
  EXPECT_EQ(ops_of(with_passes(half_network(DataType::f16, true), cpu)), (Ops{"Cast", "Conv", "Cast"}));
}

// Without a convolution there is nothing to gain; what makes values from nothing is widened with the rest.
TEST(HalfWidening, OtherGraphsAndOtherMakers) {
  GraphBuilder plain;
  plain.output(plain.node("Relu", {plain.input("x", {2, 3}, DataType::f16)}));
  EXPECT_EQ(ops_of(passed(plain.graph)), Ops{"Relu"});

  GraphBuilder b;
  const int x = b.input("x", {1, 3, 9, 9}, DataType::f16);
  const int w = b.constant(*converted(spread({4, 3, 3, 3}), TensorDesc::packed(DataType::f16, {4, 3, 3, 3})));
  const int y = b.node("Conv", {x, w});
  const int shape = b.node("Shape", {y});
  const HostTensor two = tensor_of(DataType::f16, {1}, {2});
  b.output(b.node("Mul", {b.node("Exp", {y}), b.node("ConstantOfShape", {shape}, {{"value", two}})}));
  const auto inputs = inputs_for(b.graph, -0.5, 0.5);
  const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, {"half_widening"});
  EXPECT_EQ(with[0].desc.type, DataType::f16);
  expect_close(with[0], without[0], 4e-3);
}

TEST(Check, GraphInputsAndOutputsAreThere) {
  GraphBuilder b;
  b.output(b.node("Relu", {b.input("x", {2, 3})}));
  ASSERT_TRUE(check(b.graph).ok());
  const auto said = [&](std::vector<int> Graph::*which, int id) {
    Graph graph = b.graph;
    (graph.*which)[0] = id;
    const auto sound = check(graph);
    return sound.ok() ? std::string("nothing") : sound.error().message;
  };
  EXPECT_EQ(said(&Graph::inputs, 2), "graph input 0: there is no value 2, values go from 0 to 1");
  EXPECT_EQ(said(&Graph::inputs, kAbsent), "graph input 0: there is no value -1, values go from 0 to 1");
  EXPECT_EQ(said(&Graph::outputs, 1 << 30), "graph output 0: there is no value 1073741824, values go from 0 to 1");
  EXPECT_EQ(said(&Graph::outputs, -7), "graph output 0: there is no value -7, values go from 0 to 1");
}

TEST(TopologicalOrder, SortsAndKeepsOrderedGraphs) {
  GraphBuilder b;
  const int x = b.input("x", {1, 2});
  const int later = b.graph.add_value("later");
  const int y = b.node("Relu", {later});
  b.node("Neg", {x});
  b.graph.nodes[1].outputs = {later};
  b.output(y);
  const Graph sorted = passed(b.graph);
  EXPECT_EQ(ops_of(sorted), (Ops{"Neg", "Relu"}));
  const auto result = run_graph(b.graph, {tensor_of(DataType::f32, {1, 2}, {-3, 4})});
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0].at(0), 3);
  EXPECT_EQ(result[0].at(1), 0);
}

TEST(IdentityRemoval, RemovesIdentityAndInferenceDropout) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3});
  const int id = b.node("Identity", {x});
  const int drop = b.node("Dropout", {b.node("Neg", {id})});
  b.output(drop);
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Neg"});
  expect_same_without("identity_removal", b.graph);
}

TEST(IdentityRemoval, RemovesCastsToTheSameType) {
  GraphBuilder b;
  const int x = b.node("Exp", {b.input("x", {2, 3})});
  const int same = b.node("Cast", {x}, {{"to", std::int64_t{1}}});
  b.output(b.node("Cast", {b.node("Abs", {same})}, {{"to", std::int64_t{11}}}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Exp", "Abs", "Cast"}));
  expect_same_without("identity_removal", b.graph);
}

TEST(IdentityRemoval, OutputsThatAreInputsOrConstantsAreCopied) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3});
  b.output(b.node("Identity", {x}));
  b.output(b.node("Identity", {b.constant(spread({4}))}));
  b.output(x);
  expect_same_without("identity_removal", b.graph);
}

TEST(IdentityRemoval, KeepsTrainingDropout) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3});
  const int ratio = b.constant(tensor_of(DataType::f32, {}, {0.5}));
  const int training = b.constant(tensor_of(DataType::boolean, {}, {1}));
  b.output(b.node("Dropout", {x, ratio, training}));
  auto team = make_cpu_team(1);
  Graph graph = b.graph;
  const auto changes = identity_removal(graph, PassContext{*team, cpu_features()});
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 0);
}

// x -> Reshape to `between` -> Transpose -> Reshape to `to`, of dims {2, 6, 3, 4}.
int shuffled(GraphBuilder& b, int x, const Ints& between, const Ints& perm, const Ints& to) {
  const auto list = [&](const Ints& values) {
    return b.constant(
        tensor_of(DataType::s64, {static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()}));
  };
  const int apart = b.node("Transpose", {b.node("Reshape", {x, list(between)})}, {{"perm", ints(perm)}});
  return b.node("Reshape", {apart, list(to)});
}

TEST(ChannelGather, ShufflesAndTheirHalvesBecomeOneNode) {
  GraphBuilder b;
  const int x = conv(b, b.input("x", {2, 3, 3, 4}), 3, 6, 1);
  const int halves = shuffled(b, b.node("Relu", {x}), {6, 2, 12}, {1, 0, 2}, {2, -1, 3, 3, 4});
  for (const double half : {0, 1, -1}) {
    b.output(b.node("Gather", {halves, b.constant(tensor_of(DataType::s64, {}, {half}))}, {{"axis", std::int64_t{0}}}));
  }
  b.output(shuffled(b, b.node("Sigmoid", {x}), {2, 2, 3, 3, 4}, {0, 2, 1, 3, 4}, {2, 6, 3, 4}));
  expect_same_without("channel_gather", b.graph);
  const Graph graph = passed(b.graph);
  EXPECT_EQ(std::ranges::count(ops_of(graph), "Gather"), 4);
  EXPECT_EQ(std::ranges::count(ops_of(graph), "Reshape"), 0);
}

TEST(ChannelGather, WhatMovesMoreThanChannelsStays) {
  GraphBuilder b;
  const int x = b.input("x", {2, 6, 3, 4});
  b.output(shuffled(b, x, {2, 6, 4, 3}, {0, 1, 3, 2}, {2, 6, 3, 4}));   // rows and columns
  b.output(shuffled(b, x, {2, 6, 12}, {1, 0, 2}, {2, 6, 3, 4}));        // images and channels
  b.output(shuffled(b, x, {2, 3, 2, 12}, {0, 2, 1, 3}, {2, 2, 9, 4}));  // other channels than rows
  expect_same_without("channel_gather", b.graph);
  EXPECT_EQ(std::ranges::count(ops_of(passed(b.graph)), "Transpose"), 3);
}

// Skipped one by one, on whole networks: the rest of the passes and the lowering must do without it.
TEST(SkippedPasses, EachAloneLeavesOutputsAsTheyWere) {
  const auto desc = TensorDesc::packed(DataType::f32, {1, 3, 64, 64});
  HostTensor input = spread(desc.dims);
  for (const std::string name : {"zoo:squeezenet1_1", "zoo:efficientnet_b0", "zoo:densenet121"}) {
    const auto network = Network::load(name);
    ASSERT_TRUE(network.ok()) << network.error().message;
    const auto run = [&](std::vector<std::string> skip) -> Result<std::vector<HostTensor>> {
      NetworkOptions options = test_options();
      options.skip_passes = std::move(skip);
      CONVOY_TRY(const auto session, (*network)->prepare({&desc, 1}, options));
      return session->run({&input, 1});
    };
    const auto whole = run({});
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    for (const NetworkPass& pass : network_passes()) {
      SCOPED_TRACE(name + " without " + std::string(pass.name));
      const auto without = run({std::string(pass.name)});
      ASSERT_EQ(without.ok(), pass.can_be_skipped);
      if (!without.ok()) continue;
      ASSERT_EQ(without->size(), whole->size());
      for (std::size_t i = 0; i < whole->size(); ++i) expect_close((*without)[i], (*whole)[i], 1e-4, 1e-6);
    }
  }
}

TEST(ConstantFolding, FoldsConstantsAndShapes) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4});
  const int shape = b.node("Shape", {b.node("Relu", {x})});
  const int first =
      b.node("Gather", {shape, b.constant(tensor_of(DataType::s64, {1}, {0}))}, {{"axis", std::int64_t{0}}});
  const int rest = b.constant(tensor_of(DataType::s64, {1}, {-1}));
  const int target = b.node("Concat", {first, rest}, {{"axis", std::int64_t{0}}});
  b.output(b.node("Reshape", {x, target}));
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Reshape"});
  expect_same_without("constant_folding", b.graph);
}

TEST(ConstantFolding, LeavesOversizedConstantsToTheRun) {
  GraphBuilder b;
  const int x = b.input("x", {1});
  const int shape = b.constant(tensor_of(DataType::s64, {2}, {1 << 20, 1 << 10}));
  b.output(b.node("Add", {b.node("ConstantOfShape", {shape}), x}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"ConstantOfShape", "Add"}));
}

TEST(DeadNodeRemoval, KeepsOnlyWhatOutputsNeed) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3});
  b.node("Neg", {b.node("Relu", {x})});
  b.output(b.node("Relu", {x}));
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Relu"});
  expect_same_without("dead_node_removal", b.graph);
}

}  // namespace
}  // namespace convoy::network
