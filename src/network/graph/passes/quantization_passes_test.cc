// The passes on quantized models: what becomes an operator on integers, what must stay, and that answers stay the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "network/testing/quantized.h"

namespace convoy::network {
namespace {

// Weights of few bits are bytes to the passes: a convolution of integers, a table of them for each channel.
TEST(ByteWeights, OfFewBitsRunInIntegers) {
  for (const DataType type : {DataType::s4, DataType::u4, DataType::s2, DataType::u2}) {
    SCOPED_TRACE(name_of(type));
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {1, 4, 6, 6}), 0.02, 128);
    const double low = type == DataType::s4 ? -8 : type == DataType::s2 ? -2 : 0;
    const int w = b.dq(b.constant(spread({8, 4, 3, 3}, low, low + 3, type)), 0.1, low + 1, type);
    b.output(b.qdq(b.node("Conv", {x, w}), 0.05, 100));
    const Graph graph = passed(b.graph);
    EXPECT_EQ(ops_of(graph), (Ops{"QuantizeLinear", "QLinearConv", "DequantizeLinear"}));
    expect_same(b.graph, 0.051, "byte_weights");
  }
  // Blocks become f32.
  QuantizedBuilder b;
  const int w = b.node("DequantizeLinear",
                       {b.constant(spread({8, 6}, -8, 7, DataType::s4)), b.constant(spread({8, 2}, 0.1, 0.2))},
                       {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{3}}}, 21);
  b.output(b.node("MatMul", {b.input("x", {3, 8}), w}));
  EXPECT_EQ(ops_of(passed(b.graph)), Ops{"MatMul"});
  expect_same(b.graph);
}

TEST(QuantizedFolding, ConvolutionWithBiasAndRelu) {
  QuantizedBuilder b;
  const int x = b.qdq(b.input("x", {1, 3, 6, 6}), 0.02, 100);
  const int y = b.node("Conv", {x, b.weights({8, 3, 3, 3}, 0.01), b.bias(8, 0.02 * 0.01)}, {{"pads", pads(1)}});
  b.output(b.dq(b.q(b.node("Relu", {y}), 0.05, 7), 0.05, 7));
  const Graph graph = passed(b.graph);
  EXPECT_EQ(ops_of(graph), (Ops{"QuantizeLinear", "QLinearConv", "DequantizeLinear"}));
  EXPECT_EQ(graph.nodes[1].sources.size(), 3u);
  expect_same(b.graph, 0.05 * 1.001);
  expect_same(b.graph, 0.05 * 1.001, "quantized_folding");
}

TEST(QuantizedFolding, WeightsByChannelAndFloatBias) {
  for (const DataType x_type : {kU8, kS8}) {
    for (const DataType w_type : {kS8, kU8}) {
      QuantizedBuilder b;
      const int x = b.qdq(b.input("x", {1, 4, 5, 5}), 0.02, x_type == kU8 ? 99 : -5, x_type);
      const int w = b.channel_weights({6, 2, 3, 3}, 0, w_type);
      const int bias = b.constant(spread({6}, -1, 1));
      b.output(b.q(b.node("Conv", {x, w, bias}, {{"group", std::int64_t{2}}}), 0.1, x_type == kU8 ? 130 : 3, x_type));
      EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"QuantizeLinear", "QLinearConv"}));
      std::vector<NetworkStep> steps;
      run_graph(b.graph, inputs_for(b.graph), {}, &steps);
      const auto conv = std::find_if(steps.begin(), steps.end(), [](const NetworkStep& s) { return s.kind == "conv"; });
      ASSERT_NE(conv, steps.end());
      EXPECT_EQ(conv->problem.epilogue.requantize, Requantize::per_channel);
      EXPECT_EQ(conv->problem.compute, DataType::s32);
      expect_same(b.graph);
    }
  }
}

// The sum of a residual block becomes part of the convolution that comes last.
TEST(QuantizedResidual, IsTheLaterConvolutionsEpilogue) {
  for (const DataType type : {kU8, kS8}) {
    const double shift = type == kU8 ? 128 : 0;
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {1, 4, 6, 6}), 0.02, shift + 3, type);
    const int w = b.channel_weights({8, 4, 1, 1}, 0, kS8);
    const int first = b.qdq(b.node("Conv", {x, w}), 0.04, shift - 7, type);
    const int second =
        b.qdq(b.node("Conv", {x, b.weights({8, 4, 3, 3}, 0.01)}, {{"pads", pads(1)}}), 0.03, shift + 9, type);
    const int sum = b.qdq(b.node("Relu", {b.node("Add", {first, second})}), 0.05, shift - 128, type);
    // An identity block, whose residual has another reader.
    const int third =
        b.qdq(b.node("Conv", {sum, b.weights({8, 8, 3, 3}, 0.01)}, {{"pads", pads(1)}}), 0.06, shift, type);
    b.output(b.q(b.node("Add", {sum, third}), 0.1, shift - 20, type));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), (Ops{"QuantizeLinear", "QLinearConv", "QLinearConv", "QLinearConv"}));
    EXPECT_EQ(graph.nodes[1].fusion.residual, kAbsent);
    EXPECT_EQ(graph.nodes[2].inputs.size(), 10u);
    EXPECT_EQ(graph.nodes[2].fusion.residual, 9);
    ASSERT_TRUE(graph.nodes[3].conv && graph.nodes[3].conv->problem.epilogue.residual);
    const ConvProblem& problem = graph.nodes[3].conv->problem;
    EXPECT_NEAR(problem.epilogue.residual->scale, 0.6, 1e-6);
    EXPECT_EQ(problem.epilogue.residual->zero_point, shift);
    EXPECT_NEAR(problem.epilogue.residual->z_scale, 0.5, 1e-6);
    EXPECT_EQ(problem.epilogue.residual->z_zero_point, shift - 128);
    EXPECT_EQ(problem.y_zero_point, shift - 20);
    expect_same(b.graph);
    expect_same(b.graph, 0, "conv_fusion");
  }
}

TEST(QuantizedResidual, LeavesWhatOthersReadOrDoesNotFit) {
  for (int variant = 0; variant < 3; ++variant) {
    SCOPED_TRACE(variant);
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {1, 4, 5, 5}), 0.02, 100);
    const int bytes = b.q(b.node("Conv", {x, b.weights({4, 4, 1, 1}, 0.01)}), 0.03, 120);
    // Read by another scale than it was made by.
    const int y = b.dq(bytes, variant == 0 ? 0.04 : 0.03, 120);
    if (variant == 1) b.output(bytes);
    const int z = variant == 2 ? b.qdq(b.input("z", {1, 4, 1, 1}), 0.05, 9) : x;  // broadcasts
    b.output(b.q(b.node("Add", {y, z}), 0.06, 110));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "QLinearAdd"), 1);
    expect_same(b.graph, 0, "conv_fusion");
  }
}

TEST(QuantizedFolding, ClipIsNothingOrABytesClip) {
  const auto folded = [](double low, double high) {
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {1, 3, 4, 4}), 0.02, 100);
    const int y = b.node("Conv", {x, b.weights({4, 3, 1, 1}, 0.01)});
    const int clip = b.node("Clip", {y, b.scalar(DataType::f32, low), b.scalar(DataType::f32, high)});
    b.output(b.q(clip, 6.0 / 255, 0));
    expect_same(b.graph);
    return ops_of(passed(b.graph));
  };
  EXPECT_EQ(folded(0, 6), (Ops{"QuantizeLinear", "QLinearConv"}));
  EXPECT_EQ(folded(0.5, 3), (Ops{"QuantizeLinear", "QLinearConv", "Clip"}));
}

TEST(QuantizedFolding, WithoutQuantizeTheSumsBecomeFloats) {
  QuantizedBuilder b;
  const int x = b.qdq(b.input("x", {1, 3, 6, 6}), 0.02, 100);
  const int y = b.node("Conv", {x, b.channel_weights({8, 3, 3, 3}, 0), b.constant(spread({8}))});
  b.output(b.node("Relu", {y}));
  const Graph graph = passed(b.graph);
  EXPECT_EQ(ops_of(graph), (Ops{"QuantizeLinear", "ConvInteger"}));  // the Relu is its epilogue
  expect_same(b.graph, 0.02 * 0.02);                                 // the bias is rounded to a unit of the sums
}

TEST(QuantizedFolding, WhatHasOtherReadersStays) {
  for (const bool output : {true, false}) {
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {1, 3, 4, 4}), 0.02, 100);
    const int y = b.node("Conv", {x, b.weights({4, 3, 1, 1}, 0.01)});
    b.output(b.q(y, 0.05, 7));
    b.output(output ? y : b.node("Neg", {y}));
    const Ops ops = ops_of(passed(b.graph));
    // The convolution is one of integers all the same, but its f32 result is there.
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "ConvInteger"), 1);
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "QuantizeLinear"), 2);
    expect_same(b.graph);
  }
}

TEST(QuantizedFolding, WhatIsNotConstantOrNotPlainStaysAndIsRight) {
  {
    QuantizedBuilder b;  // a scale that is an input
    const int scale = b.input("scale", {}), zero = b.scalar(kU8, 3);
    const int x = b.input("x", {1, 3, 4, 4}, kU8);
    const int y = b.node("Conv", {b.node("DequantizeLinear", {x, scale, zero}), b.weights({4, 3, 1, 1}, 0.01)});
    b.output(y);
    EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"DequantizeLinear", "Conv"}));
    const std::vector<HostTensor> inputs = {tensor_of(DataType::f32, {}, {0.5}), spread({1, 3, 4, 4}, 0, 255, kU8)};
    const auto with = run_graph(b.graph, inputs), without = run_graph(b.graph, inputs, all_but_order());
    ASSERT_EQ(with.size(), 1u);
    expect_close(with[0], without[0]);
  }
  {
    QuantizedBuilder b;  // activations by channel
    const int x = b.input("x", {1, 3, 4, 4}, kU8);
    const int real =
        b.node("DequantizeLinear", {x, b.constant(spread({3}, 0.1, 0.2)), b.constant(spread({3}, 1, 9, kU8))});
    b.output(b.node("Conv", {real, b.weights({4, 3, 1, 1}, 0.01)}));
    EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"DequantizeLinear", "Conv"}));
    expect_same(b.graph, 1e-6);
  }
  {
    QuantizedBuilder b;  // weights along their second dim
    const int x = b.qdq(b.input("x", {1, 3, 4, 4}), 0.02, 100);
    b.output(b.node("Conv", {x, b.channel_weights({4, 3, 1, 1}, 1)}));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Conv"), 1);
    expect_same(b.graph);
  }
  {
    QuantizedBuilder b;  // scales whose product f32 does not hold
    const int x = b.qdq(b.input("x", {1, 3, 4, 4}), 1e-30, 100);
    b.output(b.node("Conv", {x, b.weights({4, 3, 1, 1}, 1e-12), b.constant(spread({4}, 1, 2))}));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Conv"), 1);
    expect_same(b.graph);
  }
}

TEST(QuantizedFolding, ErrorsNameTheNode) {
  const auto error = [](auto&& add) {
    QuantizedBuilder b;
    const int x = b.input("x", {1, 3, 4, 4}, kU8);
    b.output(b.node("Conv", {add(b, x), b.weights({4, 3, 1, 1}, 0.01)}));
    const auto session = prepare_graph(b.graph, {.options = test_options()});
    return session.ok() ? std::string("no error") : session.error().message;
  };
  const auto dequantized = [](QuantizedBuilder& b, int x, HostTensor scale, HostTensor zero, std::int64_t axis) {
    return b.node("DequantizeLinear", {x, b.constant(std::move(scale)), b.constant(std::move(zero))}, {{"axis", axis}});
  };
  const auto f32 = DataType::f32;
  EXPECT_NE(error([&](auto& b, int x) {
              return dequantized(b, x, spread({2}), spread({2}, 0, 1, kU8), 1);
            }).find("axis 1 of x has 3"),
            std::string::npos);
  EXPECT_NE(error([&](auto& b, int x) {
              return dequantized(b, x, tensor_of(f32, {}, {1}), tensor_of(kS8, {}, {1}), 1);
            }).find("zero point"),
            std::string::npos);
  EXPECT_NE(
      error([&](auto& b, int x) { return dequantized(b, x, spread({3}), spread({3}, 0, 1, kU8), 4); }).find("axis=4"),
      std::string::npos);
}

TEST(QuantizedFolding, OperatorsOfTwoAndOneTensors) {
  QuantizedBuilder b;
  const int x = b.input("x", {1, 4, 6, 6});
  const int a = b.qdq(x, 0.02, 100), c = b.qdq(x, 0.03, 120);
  const int sum = b.qdq(b.node("Relu", {b.node("Add", {a, c})}), 0.04, 10);
  const int product = b.qdq(b.node("Mul", {sum, a}), 0.1, 90);
  const int averages =
      b.qdq(b.node("AveragePool", {product}, {{"kernel_shape", Ints{2, 2}}, {"pads", pads(1)}}), 0.08, 100);
  const int mean = b.qdq(b.node("GlobalAveragePool", {averages}), 0.05, 60);
  b.output(b.qdq(b.node("Softmax", {mean}, {{"axis", std::int64_t{1}}}), 1.0 / 256, 0));
  const Ops ops = ops_of(passed(b.graph));
  EXPECT_EQ(ops, (Ops{"QuantizeLinear", "QuantizeLinear", "QLinearAdd", "Clip", "QLinearMul", "QLinearAveragePool",
                      "QLinearGlobalAveragePool", "QLinearSoftmax", "DequantizeLinear"}));
  expect_same(b.graph, 2.0 / 256);
}

TEST(QuantizedMatMul, ProductsWithConstantsAreConvolutions) {
  for (const bool quantized : {true, false}) {
    for (const char* op : {"Gemm", "MatMul"}) {
      const bool gemm = std::string(op) == "Gemm";
      QuantizedBuilder b;
      const int x = b.qdq(b.input("x", gemm ? Dims{5, 12} : Dims{2, 3, 12}), 0.02, 100);
      std::vector<int> inputs = {x, b.channel_weights(gemm ? Dims{7, 12} : Dims{12, 7}, gemm ? 0 : 1)};
      if (gemm) inputs.push_back(b.constant(spread({7}, -1, 1)));
      int y = gemm ? b.node(op, inputs, {{"transB", std::int64_t{1}}}) : b.node(op, inputs);
      if (quantized) y = b.q(y, 0.05, 128);
      b.output(y);
      const Ops ops = ops_of(passed(b.graph));
      EXPECT_EQ(std::count(ops.begin(), ops.end(), quantized ? "QLinearConv" : "ConvInteger"), 1) << op;
      EXPECT_EQ(std::count(ops.begin(), ops.end(), op), 0);
      expect_same(b.graph);
      expect_same(b.graph, 1e-5, "quantized_matmul");
    }
  }
}

// Of coarse scales, for which a bias between two units of the sums is steps off; tiny ones, in whose units it fits no
// 32 bits; and those that a DequantizeLinear with a scale of its own brings.
TEST(QuantizedFolding, FloatBiasesAreNotRounded) {
  struct Case {
    double x_scale, w_scale, y_scale;
    bool dequantized;
  };
  for (const Case& c : {Case{0.9, 0.7, 0.11, false}, Case{0.02, 0.01, 0.05, false}, Case{1e-7, 2e-6, 0.01, false},
                        Case{0.9, 0.7, 0.11, true}}) {
    for (const char* op : {"Conv", "Gemm", "MatMul", "ConvTranspose"}) {
      for (const bool by_channel : {false, true}) {
        for (const bool relu : {false, true}) {
          for (const bool to_bytes : {false, true}) {
            SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", op, c.x_scale, by_channel, relu, to_bytes, c.dequantized));
            QuantizedBuilder b;
            const std::string name = op;
            const bool window = name.starts_with("Conv");
            const int x = b.qdq(b.input("x", window ? Dims{2, 8, 5, 5} : Dims{5, 8}), c.x_scale, 100);
            const Dims dims = window ? Dims{8, 8, 3, 3} : Dims{8, 8};
            const std::int64_t axis = name == "Conv" ? 0 : 1;
            const int bytes = b.constant(spread(dims, -100, 100, kS8));
            const int w = by_channel
                              ? b.node("DequantizeLinear", {bytes, b.constant(spread({8}, 0.5 * c.w_scale, c.w_scale))},
                                       {{"axis", axis}})
                              : b.dq(bytes, c.w_scale, 0, kS8);
            const int bias = c.dequantized ? b.dq(b.constant(spread({8}, -100, 100, kS8)), 0.0123, 3, kS8)
                                           : b.constant(spread({8}, -1.37, 1.23));
            int y = name == "MatMul" ? b.node("Add", {b.node(op, {x, w}), bias}) : b.node(op, {x, w, bias});
            if (relu) y = b.node("Relu", {y});
            b.output(to_bytes ? b.q(y, c.y_scale, 100) : y);
            expect_same(b.graph, std::max(1e-6, 0.1 * c.x_scale * c.w_scale));
            const Ops ops = ops_of(passed(b.graph));
            const bool folds = name != "ConvTranspose";
            EXPECT_EQ(std::count(ops.begin(), ops.end(), op), folds ? 0 : 1);
          }
        }
      }
    }
  }
}

// An operator that a model brings has an integer bias only.
TEST(QuantizedFolding, FloatBiasesAreNoneOfTheModels) {
  QuantizedBuilder b;
  const int x = b.q(b.input("x", {1, 4, 5, 5}), 0.02, 100);
  const int w = b.constant(spread({8, 4, 3, 3}, -100, 100, kS8));
  b.output(b.node("QLinearConv",
                  {x, b.scalar(DataType::f32, 0.02), b.scalar(kU8, 100), w, b.scalar(DataType::f32, 0.01),
                   b.scalar(kS8, 0), b.scalar(DataType::f32, 0.1), b.scalar(kU8, 3), b.constant(spread({8}, -1, 1))}));
  Graph graph = b.graph;
  const auto team = make_cpu_team(1);
  const auto passed = run_passes(graph, PassContext{*team, cpu_features()});
  ASSERT_FALSE(passed.ok());
  EXPECT_NE(passed.error().message.find("bias of type f32, it must be s32"), std::string::npos)
      << passed.error().message;
}

TEST(QuantizedMatMul, SumsThatAreDequantizedAreFloatsAtOnce) {
  for (const bool by_column : {false, true}) {
    QuantizedBuilder b;
    const int x = b.qdq(b.input("x", {2, 3, 12}), 0.02, 100);
    b.output(b.node("MatMul", {x, by_column ? b.channel_weights({12, 7}, 1) : b.weights({12, 7}, 0.01)}));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(ops, (Ops{"QuantizeLinear", "Reshape", "ConvInteger", "Reshape"}));
    expect_same(b.graph);
  }
}

TEST(QuantizedMatMul, BiasOfOneRow) {
  QuantizedBuilder b;
  const int x = b.qdq(b.input("x", {5, 12}), 0.02, 100);
  const int bias = b.dq(b.constant(spread({1, 7}, -3000, 3000, DataType::s32)), 0.02 * 0.01, 0, DataType::s32);
  b.output(b.q(b.node("Gemm", {x, b.weights({12, 7}, 0.01), bias}), 0.05, 128));
  const Ops ops = ops_of(passed(b.graph));
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "QLinearConv"), 1);
  expect_same(b.graph);
}

TEST(QuantizedMatMul, OfTwoActivations) {
  for (const bool quantized : {true, false}) {
    QuantizedBuilder b;
    const int x = b.input("x", {2, 3, 4});
    const int a = b.qdq(x, 0.02, 100), c = b.qdq(b.node("Transpose", {x}, {{"perm", Ints{0, 2, 1}}}), 0.02, 3, kS8);
    const int y = b.node("MatMul", {a, c});
    b.output(quantized ? b.q(y, 0.05, 128) : y);
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(std::count(ops.begin(), ops.end(), quantized ? "QLinearMatMul" : "MatMulInteger"), 1);
    expect_same(b.graph);
  }
}

TEST(DynamicQuantization, CastAndMulJoinTheConvolution) {
  for (const std::int64_t scales : {1, 6}) {
    QuantizedBuilder b;
    const int x = b.input("x", {1, 3, 6, 6});
    const int bytes = b.node("DynamicQuantizeLinear", {x});
    const int x_scale = b.graph.add_value("x_scale"), x_zero = b.graph.add_value("x_zero");
    b.graph.nodes.back().outputs = {bytes, x_scale, x_zero};
    b.graph.nodes.back().desc.output_count = 3;
    const int w = b.constant(spread({6, 3, 3, 3}, 0, 255, kU8));
    const int w_scale = b.constant(spread(scales == 1 ? Dims{} : Dims{scales, 1, 1}, 0.01, 0.02));
    const int sums = b.node("ConvInteger", {bytes, w, x_zero, b.scalar(kU8, 120)}, {{"pads", pads(1)}});
    const int real = b.node("Cast", {sums}, {{"to", std::int64_t{1}}});
    const int y = b.node("Mul", {real, b.node("Mul", {x_scale, w_scale})});
    b.output(b.node("Relu", {b.node("Add", {y, b.constant(spread({1, 6, 1, 1}))})}));
    const Ops ops = ops_of(passed(b.graph));
    EXPECT_EQ(ops, (Ops{"DynamicQuantizeLinear", "Mul", "ConvInteger", "Add", "Relu"}));
    std::vector<NetworkStep> steps;
    run_graph(b.graph, inputs_for(b.graph), {}, &steps);
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const NetworkStep& step) {
      return step.kind == "conv" && step.problem.x_zero_given && step.implementation == "cpu.int8";
    }));
    expect_same(b.graph, 1e-6);
    expect_same(b.graph, 1e-6, "dynamic_quantization");
  }
}

// What depends on data is planned at run time; until then nobody has checked which inputs it has.
TEST(QuantizedPasses, NodesThatWereNotInferredMayLackAnyInput) {
  QuantizedBuilder b;
  const int later = b.node("NonZero", {b.input("x", {2, 3})});
  const int one = b.scalar(DataType::f32, 1), zero = b.scalar(kS8, 0);
  const int w = b.constant(spread({3, 3}, -100, 100, kS8));
  b.output(b.node("QLinearMatMul", {kAbsent, later, zero, w, one, zero, one, zero}));
  b.output(b.node("MatMulInteger", {kAbsent, w, later}));
  const int images = b.constant(spread({1, 3, 5, 5}, 0, 100, kU8));
  const int filters = b.node("QuantizeLinear", {b.input("w", {4, 3, 3, 3}), one, zero});
  const int real = b.node("Cast", {b.node("ConvInteger", {images, filters})}, {{"to", std::int64_t{1}}});
  b.output(b.node("Mul", {real, kAbsent, later}));
  const Ops ops = ops_of(passed(b.graph));
  for (const char* op : {"QLinearMatMul", "MatMulInteger", "ConvInteger", "Cast", "Mul"}) {
    EXPECT_EQ(std::count(ops.begin(), ops.end(), op), 1) << op;
  }
}

TEST(ConvNodeIntegers, ZeroPointsOfChannelsDiffer) {
  QuantizedBuilder b;
  const int x = b.input("x", {1, 1, 1, 2}, kU8);
  const int w = b.constant(tensor_of(kS8, {2, 1, 1, 1}, {5, 5})), zeros = b.constant(tensor_of(kS8, {2}, {1, -2}));
  b.output(b.node("ConvInteger", {x, w, b.scalar(kU8, 10), zeros}));
  std::vector<NetworkStep> steps;
  const auto outputs = run_graph(b.graph, {tensor_of(kU8, {1, 1, 1, 2}, {13, 8})}, {}, &steps);
  ASSERT_EQ(outputs.size(), 1u);
  const double expected[] = {3 * 4, -2 * 4, 3 * 7, -2 * 7};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(outputs[0].at(i), expected[i]);
  EXPECT_TRUE(steps[0].problem.w_zero_given);
}

}  // namespace
}  // namespace convoy::network
