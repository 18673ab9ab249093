// Each pass: what it changes, what it must leave alone, and that the result is the same with it and without it.
#include <algorithm>
#include <limits>

#include "network/graph/pass.h"
#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

using ops::Attribute;
using Ints = std::vector<std::int64_t>;

Attribute ints(Ints values) { return values; }

// The graph after all passes but those skipped.
Graph passed(Graph graph, std::vector<std::string> skip = {}) {
  const auto team = make_cpu_team(1);
  const auto log = run_passes(graph, PassContext{*team, cpu_features()}, skip);
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message);
  return graph;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.desc.op);
  return names;
}
using Ops = std::vector<std::string>;

void expect_same_without(const std::string& pass, const Graph& graph, double low = -2, double high = 2) {
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

int conv(GraphBuilder& b, int x, std::int64_t in, std::int64_t out, std::int64_t kernel, bool bias = true) {
  std::vector<int> inputs = {x, b.constant(spread({out, in, kernel, kernel}, -0.5, 0.4))};
  if (bias) inputs.push_back(b.constant(spread({out}, -1, 1)));
  return b.node("Conv", inputs, {{"pads", ints(Ints(4, kernel / 2))}});
}

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

TEST(PadFolding, ZeroPadJoinsTheConvolution) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 7, 6});
  const int pads = b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 0, 0, 0, 2, 3}));
  b.output(conv(b, b.node("Pad", {x, pads}), 3, 4, 3));
  const Graph graph = passed(b.graph);
  ASSERT_EQ(ops_of(graph), Ops{"Conv"});
  EXPECT_EQ(graph.nodes[0].sources, (std::vector<std::string>{"Pad_0", "Conv_1"}));
  expect_same_without("pad_folding", b.graph);
}

TEST(PadFolding, LeavesWhatIsNoZeroPadding) {
  const auto pads = tensor_of(DataType::s64, {8}, {0, 0, 1, 1, 0, 0, 1, 1});
  const auto channel_pads = tensor_of(DataType::s64, {8}, {0, 1, 1, 1, 0, 0, 1, 1});
  for (int variant = 0; variant < 4; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 7, 6});
    std::vector<int> inputs = {x, b.constant(variant == 1 ? channel_pads : pads)};
    if (variant == 0) inputs.push_back(b.constant(tensor_of(DataType::f32, {}, {0.5})));
    std::map<std::string, Attribute> attributes;
    if (variant == 2) attributes["mode"] = std::string("reflect");
    const int padded = b.node("Pad", inputs, attributes);
    b.output(conv(b, padded, variant == 1 ? 4 : 3, 4, 3));
    if (variant == 3) b.output(padded);
    EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Pad", "Conv"}));
    expect_same_without("pad_folding", b.graph);
  }
}

// A Pad's zeros are data, which an infinite weight makes a NaN of.
TEST(PadFolding, LeavesWeightsThatAreNotFinite) {
  GraphBuilder b;
  const int x = b.input("x", {1, 1, 5, 5});
  HostTensor weights = spread({2, 1, 3, 3}, 1, 2);
  weights.as<float>()[0] = std::numeric_limits<float>::infinity();
  const int pads = b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 1, 0, 0, 1, 1}));
  b.output(b.node("Conv", {b.node("Pad", {x, pads}), b.constant(weights)}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Pad", "Conv"}));
}

// Sizes near 2^63 must not overflow on their way to an error.
TEST(PadFolding, LeavesHostileSizesToTheOperator) {
  for (const std::int64_t size : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 62}) {
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 7, 6});
    HostTensor pads = tensor_of(DataType::s64, {8}, std::vector<double>(8, 0));
    pads.as<std::int64_t>()[2] = size;
    b.output(conv(b, b.node("Pad", {x, b.constant(pads)}), 3, 4, 3));
    EXPECT_FALSE(prepare_graph(b.graph, {.options = test_options()}).ok());
    GraphBuilder own;
    const int y = own.input("x", {1, 3, 7, 6});
    const int padded = own.node("Pad", {y, own.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 1, 0, 0, 1, 1}))});
    own.output(own.node("Conv", {padded, own.constant(spread({4, 3, 3, 3}))}, {{"pads", ints({size, 0, 0, 0})}}));
    EXPECT_FALSE(prepare_graph(own.graph, {.options = test_options()}).ok());
  }
}

TEST(PadFolding, AveragePoolCountsThePadding) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 7, 6});
  const int pads = b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 1, 0, 0, 1, 1}));
  b.output(b.node("AveragePool", {b.node("Pad", {x, pads})}, {{"kernel_shape", ints({3, 3})}}));
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"AveragePool"});
  expect_same_without("pad_folding", b.graph);
}

TEST(PadFolding, MaxPoolOnlyTakesMinusInfinity) {
  for (const double value : {0.0, -std::numeric_limits<double>::infinity()}) {
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 7, 6});
    const int pads = b.constant(tensor_of(DataType::s64, {8}, {0, 0, 1, 1, 0, 0, 1, 1}));
    const int padded = b.node("Pad", {x, pads, b.constant(tensor_of(DataType::f32, {}, {value}))});
    b.output(b.node("MaxPool", {padded}, {{"kernel_shape", ints({3, 3})}}));
    EXPECT_EQ(ops_of(passed(b.graph)), value == 0 ? (Ops{"Pad", "MaxPool"}) : Ops{"MaxPool"});
    expect_same_without("pad_folding", b.graph, -2, -1);  // below zero: where padding with zeros shows
  }
}

// In front of a convolution, as in DenseNet.
TEST(BoundFusion, ReluAndClipJoinABatchNormalization) {
  const auto made = [](const std::string& activation, bool read_twice) {
    GraphBuilder b;
    const auto channels = [&](double low, double high) { return b.constant(spread({4}, low, high)); };
    const int x = b.input("x", {2, 4, 5, 5});
    const int y =
        b.node("BatchNormalization", {x, channels(0.5, 2), channels(-1, 1), channels(-1, 1), channels(0.5, 3)});
    std::vector<int> inputs = {y};
    if (activation == "Clip") {
      for (const double bound : {-0.5, 0.75}) inputs.push_back(b.constant(tensor_of(DataType::f32, {}, {bound})));
    }
    const int z = b.node(activation, inputs);
    b.output(conv(b, z, 4, 3, 3, false));
    if (read_twice) b.output(b.node("Neg", {y}));
    return b.graph;
  };
  for (const char* activation : {"Relu", "Clip"}) {
    const Graph graph = passed(made(activation, false));
    ASSERT_EQ(ops_of(graph), (Ops{"BatchNormalization", "Conv"})) << activation;
    EXPECT_EQ(graph.nodes[0].sources.size(), 2u);
    expect_same_without("bound_fusion", made(activation, false));
  }
  EXPECT_EQ(ops_of(passed(made("Relu", true))), (Ops{"BatchNormalization", "Relu", "Conv", "Neg"}));
  EXPECT_EQ(ops_of(passed(made("Sigmoid", false))), (Ops{"BatchNormalization", "Sigmoid", "Conv"}));
}

TEST(AffineFolding, BatchNormAndChannelConstantsJoinTheWeights) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 5, 5});
  int y = conv(b, x, 3, 4, 3, false);
  y = b.node("BatchNormalization",
             {y, b.constant(spread({4}, 0.5, 2)), b.constant(spread({4}, -1, 1)), b.constant(spread({4}, -1, 1)),
              b.constant(spread({4}, 0.5, 3))},
             {{"epsilon", 1e-3}});
  y = b.node("Mul", {b.constant(spread({4, 1, 1}, 0.5, 2)), y});
  y = b.node("Sub", {b.constant(spread({1, 4, 1, 1}, -1, 2)), y});
  y = b.node("Div", {y, b.constant(tensor_of(DataType::f32, {}, {-2}))});
  b.output(b.node("Add", {y, b.constant(spread({1}, 3, 3))}));
  const Graph graph = passed(b.graph);
  ASSERT_EQ(ops_of(graph), Ops{"Conv"});
  EXPECT_EQ(graph.nodes[0].sources.size(), 6u);
  expect_same_without("affine_folding", b.graph);
}

TEST(AffineFolding, TransposedAndGroupedWeightsScaleByOutputChannel) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 5, 4});
  int y = b.node("ConvTranspose", {x, b.constant(spread({4, 3, 2, 2}))},
                 {{"group", std::int64_t{2}}, {"strides", ints({2, 2})}});
  y = b.node("Mul", {y, b.constant(spread({6, 1, 1}, -2, 2))});
  y = b.node("Conv", {y, b.constant(spread({4, 3, 2, 2}))}, {{"group", std::int64_t{2}}});
  b.output(b.node("Mul", {y, b.constant(spread({4, 1, 1}, -2, 2))}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"ConvTranspose", "Conv"}));
  expect_same_without("affine_folding", b.graph);
}

TEST(AffineFolding, LeavesWhatIsNoMapPerChannel) {
  for (int variant = 0; variant < 5; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 4, 4});
    const int y = conv(b, x, 3, 4, 3);
    int z = kAbsent;
    if (variant == 0) z = b.node("Mul", {y, b.constant(spread({4, 4}, 0.5, 2))});         // along H, W
    if (variant == 1) z = b.node("Div", {b.constant(spread({4, 1, 1}, 1, 2)), y});        // 1/conv
    if (variant == 2) z = b.node("Mul", {y, b.input("scale", {4, 1, 1})});                // not constant
    if (variant == 3) z = b.node("Mul", {y, b.constant(spread({2, 1, 1, 1, 1}, 1, 2))});  // adds a dim
    if (variant == 4) {                                                                   // another reader
      z = b.node("Mul", {y, b.constant(spread({4, 1, 1}, 0.5, 2))});
      b.output(b.node("Neg", {y}));
    }
    b.output(z);
    EXPECT_EQ(passed(b.graph, {"conv_fusion"}).nodes.size(), b.graph.nodes.size());
    expect_same_without("affine_folding", b.graph, 0.5, 2);
  }
}

// Infinite weights would make NaN of sums that are finite, or one infinity.
TEST(AffineFolding, LeavesWhatWouldBecomeInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double scale : {infinity, 1e38, std::numeric_limits<double>::quiet_NaN()}) {
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 4, 4});
    const int y = b.node("Conv", {x, b.constant(spread({4, 3, 3, 3}, 5, 10))});
    b.output(b.node("Mul", {y, b.constant(tensor_of(DataType::f32, {}, {scale}))}));
    EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Conv", "Mul"})) << scale;
  }
}

struct Epilogue {
  std::string op;
  std::map<std::string, Attribute> attributes;
  ActivationKind kind;
  std::vector<double> bounds = {};  // further inputs, scalars
  int opset = 13;
};

TEST(ConvFusion, EveryActivation) {
  const std::vector<Epilogue> cases = {
      {"Relu", {}, ActivationKind::relu},
      {"Clip", {}, ActivationKind::clip, {-0.25, 0.5}},
      {"Clip", {{"min", 0.0}, {"max", 6.0}}, ActivationKind::clip, {}, 6},
      {"Clip", {}, ActivationKind::relu, {0}},
      {"LeakyRelu", {{"alpha", 0.3}}, ActivationKind::leaky_relu},
      {"Elu", {{"alpha", 0.7}}, ActivationKind::elu},
      {"Sigmoid", {}, ActivationKind::sigmoid},
      {"Tanh", {}, ActivationKind::tanh},
      {"HardSwish", {}, ActivationKind::hard_swish, {}, 14},
      {"HardSigmoid", {{"alpha", 0.3}, {"beta", 0.4}}, ActivationKind::hard_sigmoid},
      {"Mish", {}, ActivationKind::mish, {}, 18},
      {"Gelu", {}, ActivationKind::gelu, {}, 20},
      {"Gelu", {{"approximate", std::string("tanh")}}, ActivationKind::gelu_tanh, {}, 20},
  };
  for (const Epilogue& c : cases) {
    SCOPED_TRACE(c.op);
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 5, 4});
    std::vector<int> inputs = {conv(b, x, 3, 4, 3)};
    for (double bound : c.bounds) inputs.push_back(b.constant(tensor_of(DataType::f32, {}, {bound})));
    b.output(b.node(c.op, inputs, c.attributes, c.opset));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), Ops{"Conv"});
    EXPECT_EQ(graph.nodes[0].fusion.activation.kind, c.kind);
    expect_same_without("conv_fusion", b.graph);
  }
}

TEST(ConvFusion, PReluWithSlopesByChannel) {
  for (const Dims& slopes : {Dims{4, 1, 1}, Dims{1}}) {
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 5, 4});
    b.output(b.node("PRelu", {conv(b, x, 3, 4, 3), b.constant(spread(slopes, 0.1, 0.9))}));
    EXPECT_EQ(ops_of(passed(b.graph)), Ops{"Conv"});
    expect_same_without("conv_fusion", b.graph);
  }
}

TEST(ConvFusion, OneSidedBoundsStayAnOperator) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 5, 4});
  b.output(b.node("Clip", {conv(b, x, 3, 4, 3), b.constant(tensor_of(DataType::f32, {}, {0.25}))}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Conv", "Clip"}));
  expect_same_without("conv_fusion", b.graph);
}

TEST(ConvFusion, ResidualThenActivation) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 6, 5});
  const int y = conv(b, x, 4, 4, 3);
  b.output(b.node("Relu", {b.node("Add", {x, y})}));
  const Graph graph = passed(b.graph);
  ASSERT_EQ(ops_of(graph), Ops{"Conv"});
  EXPECT_EQ(graph.nodes[0].inputs.size(), 4u);
  EXPECT_EQ(graph.nodes[0].fusion.residual, 3);
  EXPECT_EQ(graph.nodes[0].fusion.activation.kind, ActivationKind::relu);
  expect_same_without("conv_fusion", b.graph);
}

TEST(ConvFusion, OfTwoConvolutionsTheLaterTakesTheSum) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 6, 5});
  const int first = conv(b, x, 4, 4, 3, false);
  const int second = conv(b, x, 4, 4, 1);
  b.output(b.node("Relu", {b.node("Add", {first, second})}));
  const Graph graph = passed(b.graph);
  ASSERT_EQ(ops_of(graph), (Ops{"Conv", "Conv"}));
  EXPECT_EQ(graph.nodes[0].fusion.residual, kAbsent);
  EXPECT_EQ(graph.nodes[1].sources, (std::vector<std::string>{"Conv_1", "Add_2", "Relu_3"}));
  expect_same_without("conv_fusion", b.graph);
}

// The residual may come from a node that stood behind the convolution.
TEST(ConvFusion, ResidualFromALaterNode) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 6, 5});
  const int y = conv(b, x, 4, 4, 3);
  const int z = b.node("Neg", {b.node("Relu", {x})});
  b.output(b.node("Add", {y, z}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Relu", "Neg", "Conv"}));
  expect_same_without("conv_fusion", b.graph);
}

TEST(ConvFusion, LeavesWhatOthersReadOrDoesNotFit) {
  for (int variant = 0; variant < 6; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int x = b.input("x", {1, 4, 6, 5});
    const int y = conv(b, x, 4, 4, 3);
    if (variant == 0) b.output(y);                   // the intermediate is an output
    if (variant == 1) b.output(b.node("Neg", {y}));  // and has another reader
    int z = kAbsent;
    if (variant < 2) z = b.node("Relu", {y});
    if (variant == 2) z = b.node("Add", {y, b.input("z", {1, 4, 1, 1})});  // broadcasts
    if (variant == 3) z = b.node("Add", {y, b.input("z", {2, 4, 6, 5})});  // the other way
    if (variant == 4) z = b.node("Add", {y, y});
    if (variant == 5) z = b.node("Add", {y, b.node("Sigmoid", {y})});  // the residual reads the convolution
    b.output(z);
    EXPECT_EQ(passed(b.graph).nodes.size(), b.graph.nodes.size());
    expect_same_without("conv_fusion", b.graph);
  }
}

TEST(ConvFusion, ChainsResidualBlocks) {
  GraphBuilder b;
  int x = b.input("x", {1, 4, 6, 5});
  for (int block = 0; block < 3; ++block) {
    const int y = b.node("Relu", {conv(b, x, 4, 4, 3)});
    x = b.node("Relu", {b.node("Add", {conv(b, y, 4, 4, 3), x})});
  }
  b.output(x);
  EXPECT_EQ(ops_of(passed(b.graph)), Ops(6, "Conv"));
  expect_same_without("conv_fusion", b.graph);
}

int scalar(GraphBuilder& b, double value) { return b.constant(tensor_of(DataType::f32, {}, {value})); }

TEST(ActivationPatterns, FuseBehindConvolutions) {
  struct Pattern {
    ActivationKind kind;
    int (*build)(GraphBuilder&, int);
  };
  const Pattern patterns[] = {
      {ActivationKind::swish,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {x, b.node("Sigmoid", {x})});
       }},
      {ActivationKind::swish,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {b.node("Sigmoid", {x}), x});
       }},
      {ActivationKind::hard_swish,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {x, b.node("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})});
       }},
      {ActivationKind::hard_swish,
       [](GraphBuilder& b, int x) {
         const int clip = b.node("Clip", {b.node("Add", {x, scalar(b, 3)}), scalar(b, 0), scalar(b, 6)});
         return b.node("Mul", {x, b.node("Div", {clip, scalar(b, 6)})});
       }},
      {ActivationKind::hard_swish,
       [](GraphBuilder& b, int x) {
         const int clip = b.node("Clip", {b.node("Add", {x, scalar(b, 3)}), scalar(b, 0), scalar(b, 6)});
         return b.node("Mul", {b.node("Mul", {x, clip}), scalar(b, 1.0 / 6)});
       }},
      {ActivationKind::mish,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {x, b.node("Tanh", {b.node("Softplus", {x})})});
       }},
      {ActivationKind::gelu,
       [](GraphBuilder& b, int x) {
         const int erf = b.node("Erf", {b.node("Div", {x, scalar(b, 1.4142135623730951)})});
         return b.node("Mul", {b.node("Mul", {x, b.node("Add", {erf, scalar(b, 1)})}), scalar(b, 0.5)});
       }},
      {ActivationKind::gelu,
       [](GraphBuilder& b, int x) {
         const int erf = b.node("Erf", {b.node("Mul", {x, scalar(b, 0.7071067811865476)})});
         return b.node("Mul", {b.node("Mul", {x, scalar(b, 0.5)}), b.node("Add", {erf, scalar(b, 1)})});
       }},
  };
  for (const Pattern& pattern : patterns) {
    SCOPED_TRACE(name_of(pattern.kind));
    GraphBuilder b;
    b.output(pattern.build(b, conv(b, b.input("x", {1, 3, 5, 4}), 3, 4, 3)));
    const Graph graph = passed(b.graph);
    EXPECT_EQ(ops_of(graph), Ops{"Conv"});
    EXPECT_EQ(graph.nodes[0].fusion.activation.kind, pattern.kind);
    expect_same_without("activation_patterns", b.graph);
  }
}

TEST(ActivationPatterns, LeaveWhatIsReadElsewhereOrDiffers) {
  for (int variant = 0; variant < 3; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int x = b.input("x", {1, 3, 5, 4});
    if (variant == 0) {
      const int gate = b.node("Sigmoid", {x});
      b.output(b.node("Mul", {x, gate}));
      b.output(gate);
    } else if (variant == 1) {
      b.output(b.node("Mul", {x, b.node("HardSigmoid", {x})}));  // alpha 0.2: no hard swish
    } else {
      b.output(b.node("Mul", {b.input("y", {1, 3, 5, 4}), b.node("Sigmoid", {x})}));
    }
    EXPECT_EQ(passed(b.graph).nodes.size(), 2u);
    expect_same_without("activation_patterns", b.graph);
  }
}

}  // namespace
}  // namespace convoy::network
