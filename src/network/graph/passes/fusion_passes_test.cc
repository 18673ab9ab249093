// What joins a convolution or its neighbours: pads, bounds, affine maps, activations and residuals.
#include <algorithm>
#include <limits>

#include "network/graph/conv_node.h"
#include "network/testing/passes.h"

namespace convoy::network {
namespace {

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
  const int first = conv(b, b.input("z", {1, 4, 6, 5}), 4, 4, 3, false);
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

// Of gelu's approximation.
int one_and_tanh(GraphBuilder& b, int x) {
  const int cube = b.node("Mul", {b.node("Pow", {x, scalar(b, 3)}), scalar(b, 0.044715)});
  const int argument = b.node("Mul", {scalar(b, 0.7978845608028654), b.node("Add", {x, cube})});
  return b.node("Add", {b.node("Tanh", {argument}), scalar(b, 1)});
}

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
      {ActivationKind::gelu_tanh,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {b.node("Mul", {x, scalar(b, 0.5)}), one_and_tanh(b, x)});
       }},
      {ActivationKind::gelu_tanh,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {scalar(b, 0.5), b.node("Mul", {one_and_tanh(b, x), x})});
       }},
      {ActivationKind::gelu_tanh,
       [](GraphBuilder& b, int x) {
         return b.node("Mul", {x, b.node("Mul", {scalar(b, 0.5), one_and_tanh(b, x)})});
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

// As exporters wrote it before opset 17.
struct WrittenOut {
  std::vector<std::int64_t> axes = {-1};
  Dims scale = {6};
  bool multiplies = false, twice = false, biased = true, centred = true;
  std::string by = "Div";  // or Reciprocal, or Div of 1

  int build(GraphBuilder& b, int x) const {
    const auto mean = [&](int value) { return b.node("ReduceMean", {value}, {{"axes", axes}}, 13); };
    const int d = centred ? b.node("Sub", {x, mean(x)}) : x;
    const int again = twice ? b.node("Sub", {x, mean(x)}) : d;
    const int square = multiplies ? b.node("Mul", {again, again}) : b.node("Pow", {again, scalar(b, 2)});
    const int root = b.node("Sqrt", {b.node("Add", {mean(square), scalar(b, 1e-3)})});
    const int unscaled = by == "Div"          ? b.node("Div", {d, root})
                         : by == "Reciprocal" ? b.node("Mul", {b.node("Reciprocal", {root}), d})
                                              : b.node("Mul", {d, b.node("Div", {scalar(b, 1), root})});
    const int y = b.node("Mul", {unscaled, b.constant(spread(scale, 0.5, 1))});
    return biased ? b.node("Add", {b.constant(spread(scale, -1, 1)), y}) : y;
  }
};

TEST(NormalizationPatterns, BecomeOneNode) {
  for (const WrittenOut& form :
       {WrittenOut{}, WrittenOut{.multiplies = true}, WrittenOut{.twice = true}, WrittenOut{.biased = false},
        WrittenOut{.scale = {1, 1, 6}}, WrittenOut{.axes = {1, 2}, .scale = {4, 6}}, WrittenOut{.by = "Reciprocal"},
        WrittenOut{.by = "1 / root"}, WrittenOut{.biased = false, .centred = false, .by = "Reciprocal"},
        WrittenOut{.multiplies = true, .biased = false, .centred = false, .by = "1 / root"}}) {
    GraphBuilder b;
    b.output(form.build(b, b.input("x", {3, 4, 6})));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), Ops{form.centred ? "LayerNormalization" : "RMSNormalization"});
    EXPECT_EQ(graph.nodes[0].sources.size(), b.graph.nodes.size());
    expect_same_without("normalization_patterns", b.graph);
  }
}

TEST(NormalizationPatterns, LeaveWhatDiffers) {
  for (const WrittenOut& form : {WrittenOut{.axes = {1}}, WrittenOut{.axes = {0, 1, 2}}, WrittenOut{.scale = {4, 6}},
                                 WrittenOut{.scale = {1}}}) {
    GraphBuilder b;
    b.output(form.build(b, b.input("x", {3, 4, 6})));
    const auto ops = ops_of(passed(b.graph));
    EXPECT_EQ(std::ranges::count(ops, "LayerNormalization"), 0);
    expect_same_without("normalization_patterns", b.graph);
  }
  GraphBuilder higher;  // the bias adds a dim
  higher.output(higher.node("Add", {WrittenOut{.biased = false}.build(higher, higher.input("x", {3, 4, 6})),
                                    higher.constant(spread({1, 1, 1, 6}, -1, 1))}));
  EXPECT_EQ(ops_of(passed(higher.graph)), (Ops{"LayerNormalization", "Add"}));
  expect_same_without("normalization_patterns", higher.graph);
  GraphBuilder biased;  // RMSNormalization has no bias
  biased.output(WrittenOut{.centred = false}.build(biased, biased.input("x", {3, 4, 6})));
  EXPECT_EQ(ops_of(passed(biased.graph)), (Ops{"RMSNormalization", "Add"}));
  expect_same_without("normalization_patterns", biased.graph);
  GraphBuilder b;  // the mean is read outside
  b.output(WrittenOut{}.build(b, b.input("x", {3, 4, 6})));
  b.output(b.graph.nodes[0].outputs[0]);
  const auto ops = ops_of(passed(b.graph));
  EXPECT_EQ(std::ranges::count(ops, "LayerNormalization"), 0);
}

// GroupNormalization as exporters write it before opset 18.
int groups_as_instances(GraphBuilder& b, int x, std::int64_t groups, const Dims& dims) {
  const int rows =
      b.node("Reshape", {x, b.constant(tensor_of(DataType::s64, {3}, {0, static_cast<double>(groups), -1}))});
  const int normal =
      b.node("InstanceNormalization", {rows, b.constant(spread({groups}, 0.5, 1)), b.constant(spread({groups}, -1, 1))},
             {{"epsilon", 1e-3}});
  const std::vector<double> shape(dims.begin(), dims.end());
  return b.node("Reshape", {normal, b.constant(tensor_of(DataType::s64, {std::ssize(shape)}, shape))});
}

TEST(NormalizationPatterns, InstancesOfGroupsBecomeOneNode) {
  for (const Dims& dims : {Dims{2, 6, 5}, Dims{2, 6, 3, 4}, Dims{1, 6, 2, 3, 4}}) {
    Dims by_channel(dims.size() - 1, 1);
    by_channel[0] = 6;
    GraphBuilder b;
    int y = groups_as_instances(b, b.input("x", dims), 3, dims);
    y = b.node("Mul", {y, b.constant(spread(by_channel, 0.5, 2))});
    b.output(b.node("Add", {b.constant(spread(by_channel, -1, 1)), y}));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), Ops{"GroupNormalization"});
    EXPECT_EQ(graph.nodes[0].sources.size(), b.graph.nodes.size());
    expect_same_without("normalization_patterns", b.graph);
  }
}

TEST(NormalizationPatterns, LeaveInstancesThatAreNoGroups) {
  GraphBuilder across;  // groups of a channel and a half
  across.output(groups_as_instances(across, across.input("x", {2, 6, 4}), 4, {2, 6, 4}));
  GraphBuilder other;  // another shape behind
  other.output(groups_as_instances(other, other.input("x", {2, 6, 4}), 3, {2, 3, 8}));
  GraphBuilder read;  // by two
  const int y = groups_as_instances(read, read.input("x", {2, 6, 4}), 3, {2, 6, 4});
  read.output(y);
  read.output(read.graph.nodes[1].outputs[0]);
  for (const GraphBuilder* b : {&across, &other, &read}) {
    EXPECT_EQ(std::ranges::count(ops_of(passed(b->graph)), "GroupNormalization"), 0);
    expect_same_without("normalization_patterns", b->graph);
  }
  GraphBuilder infinite;  // 0 * infinity would be added to what is finite
  const int scaled = infinite.node("Mul", {groups_as_instances(infinite, infinite.input("x", {2, 6, 4}), 3, {2, 6, 4}),
                                           infinite.constant(tensor_of(DataType::f32, {}, {1e38}))});
  infinite.output(infinite.node("Mul", {scaled, infinite.constant(tensor_of(DataType::f32, {}, {1e3}))}));
  EXPECT_EQ(ops_of(passed(infinite.graph)), (Ops{"GroupNormalization", "Mul"}));
}

// A block of ConvNeXt as exporters write it: what is channels last becomes convolutions with epilogues.
TEST(PixelProducts, BecomeConvolutionsOnAGpu) {
  GraphBuilder b;
  const int x = b.input("x", {2, 6, 5, 4});
  const auto matrix = [&](std::int64_t from, std::int64_t to) { return b.constant(spread({from, to}, -0.5, 0.4)); };
  const int last = b.node("Transpose", {x}, {{"perm", ints({0, 2, 3, 1})}});
  const int normal =
      b.node("LayerNormalization", {last, b.constant(spread({6}, 0.5, 1)), b.constant(spread({6}, -1, 1))});
  int y = b.node("Add", {b.constant(spread({8}, -1, 1)), b.node("MatMul", {normal, matrix(6, 8)})});
  y = b.node("Relu", {y});
  y = b.node("Add", {b.node("MatMul", {y, matrix(8, 6)}), b.constant(spread({1, 1, 1, 6}, -1, 1))});
  y = b.node("Transpose", {y}, {{"perm", ints({0, 3, 1, 2})}});
  y = b.node("Mul", {b.constant(spread({6, 1, 1}, 0.1, 0.5)), y});
  b.output(b.node("Add", {y, x}));
  b.output(b.node("MatMul", {last, matrix(6, 3)}));
  const auto inputs = inputs_for(b.graph, -2, 2);
  const auto right = run_graph(b.graph, inputs, all_but_order());

  EXPECT_EQ(std::ranges::count(ops_of(passed(b.graph)), "Conv"), 0);
  Graph graph = b.graph;
  const auto team = make_cpu_team(1);
  ASSERT_TRUE(run_passes(graph, PassContext{*team, cpu_features(), true}, {}).ok());
  const Ops ops = ops_of(graph);
  EXPECT_EQ(std::ranges::count(ops, "Conv"), 3);
  EXPECT_EQ(std::ranges::count(ops, "Transpose"), 3);  // to LayerNormalization, from it, and the second output's
  EXPECT_EQ(ops.size(), 7U);
  const auto with = run_graph(graph, inputs, all_but_order());
  ASSERT_EQ(with.size(), right.size());
  for (std::size_t i = 0; i < with.size(); ++i) expect_close(with[i], right[i]);
}

// The last layer of a classifier of few images in 16 bits; the pooling in front gives the pixels.
TEST(PixelProducts, AreAClassifiersLastLayerOnAGpu) {
  const auto network = [](std::int64_t images, DataType type, bool transposed, bool pooled) {
    GraphBuilder b;
    const int x = b.input("x", pooled ? Dims{images, 6, 3, 2} : Dims{images, 6}, type);
    const int flat = pooled ? b.node("Flatten", {b.node("GlobalAveragePool", {x})}) : x;
    const int matrix = b.constant(spread(transposed ? Dims{5, 6} : Dims{6, 5}, -0.5, 0.4, type));
    b.output(b.node("Gemm", {flat, matrix, b.constant(spread({5}, -1, 1, type))},
                    {{"transB", std::int64_t{transposed ? 1 : 0}}}));
    return std::move(b.graph);
  };
  const auto team = make_cpu_team(1);
  const auto ops_on_a_gpu = [&](Graph& graph) {
    EXPECT_TRUE(run_passes(graph, PassContext{*team, cpu_features(), true}, {}).ok());
    return ops_of(graph);
  };
  for (const bool transposed : {false, true}) {
    for (const bool pooled : {false, true}) {
      Graph graph = network(3, DataType::f16, transposed, pooled);
      const auto inputs = inputs_for(graph, -2, 2);
      const auto right = run_graph(graph, inputs, all_but_order());
      EXPECT_EQ(ops_on_a_gpu(graph),
                pooled ? (Ops{"GlobalAveragePool", "Conv", "Squeeze"}) : (Ops{"Unsqueeze", "Conv", "Squeeze"}));
      expect_close(run_graph(graph, inputs, all_but_order())[0], right[0]);
    }
  }
  for (Graph graph : {network(9, DataType::f16, true, true), network(3, DataType::f32, true, true)}) {
    EXPECT_EQ(ops_on_a_gpu(graph), (Ops{"GlobalAveragePool", "Flatten", "Gemm"}));
  }
}

}  // namespace
}  // namespace convoy::network
