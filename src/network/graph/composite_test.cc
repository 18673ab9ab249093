// Operators that stand for several: what they become, where they are inferred, and what their errors say. Their values
// are compared with ONNX Runtime's in tests/opsets.
#include "network/graph/composite.h"

#include <algorithm>
#include <cmath>

#include "network/graph/infer.h"
#include "network/testing/passes.h"

namespace convoy::network {
namespace {

using Attributes = std::map<std::string, ops::Attribute>;

class Builder : public GraphBuilder {
 public:
  int microsoft(const std::string& op, std::vector<int> inputs, Attributes attributes = {}) {
    const int value = node(op, std::move(inputs), std::move(attributes), 1);
    graph.nodes.back().desc.domain = "com.microsoft";
    return value;
  }
};

TEST(Composite, AFusedConvIsFusedAgain) {
  Builder b;
  const int x = b.input("x", {1, 4, 6, 6}), z = b.input("z", {1, 8, 6, 6});
  const int w = b.constant(spread({8, 4, 3, 3})), bias = b.constant(spread({8}));
  b.output(b.microsoft("FusedConv", {x, w, bias, z},
                       {{"activation", std::string("Relu")}, {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}));
  const Graph graph = with_passes(b.graph, cpu_features());
  ASSERT_EQ(ops_of(graph), std::vector<std::string>{"Conv"});
  EXPECT_NE(graph.nodes[0].fusion.residual, kAbsent);
  EXPECT_EQ(graph.nodes[0].fusion.activation.kind, ActivationKind::relu);
  EXPECT_EQ(graph.nodes[0].sources.front(), b.graph.nodes[0].desc.name);
}

TEST(Composite, IsInferredBeforeItIsExpanded) {
  Builder b;
  const int x = b.input("x", {2, 5, 16}), skip = b.input("skip", {2, 5, 16});
  const int y = b.microsoft("SkipLayerNormalization", {x, skip, b.constant(spread({16}))});
  const std::size_t values = b.graph.values.size();
  const auto knowledge = infer_node(b.graph, b.graph.nodes.back());
  ASSERT_TRUE(knowledge.ok()) << knowledge.error().message;
  EXPECT_EQ(*knowledge, Knowledge::known);
  EXPECT_EQ(b.graph.values[y].desc.dims, (Dims{2, 5, 16}));
  EXPECT_EQ(b.graph.values.size(), values);  // nothing is left of the expansion
  EXPECT_EQ(b.graph.nodes.back().desc.op, "SkipLayerNormalization");
}

// Scales and zero points a direction, and a gate's unit.
TEST(Composite, AnLstmOfBytesIsThatOfTheirValues) {
  constexpr int kIn = 3, kHidden = 2, kGates = 4 * kHidden;
  for (const bool each : {false, true}) {
    std::vector<double> w, r, w_real(kGates * kIn), r_real(kGates * kHidden), scales, zeros;
    for (int g = 0; g < (each ? kGates : 1); ++g) {
      scales.push_back(0.01 * (g + 1));
      zeros.push_back(100 + g);
    }
    const auto real = [&](double byte, int g) { return (byte - zeros[each ? g : 0]) * scales[each ? g : 0]; };
    for (int i = 0; i < kIn * kGates; ++i) {
      w.push_back(i * 37 % 256);
      w_real[i % kGates * kIn + i / kGates] = real(w.back(), i % kGates);
    }
    for (int i = 0; i < kHidden * kGates; ++i) {
      r.push_back(i * 91 % 256);
      r_real[i % kGates * kHidden + i / kGates] = real(r.back(), i % kGates);
    }
    const Dims dims = each ? Dims{1, kGates} : Dims{1};
    const HostTensor x = spread({4, 1, kIn});
    const Attributes attributes{{"hidden_size", std::int64_t{kHidden}}};
    Builder bytes, reals;
    const auto scale = [&] { return bytes.constant(tensor_of(DataType::f32, dims, scales)); };
    const auto zero = [&] { return bytes.constant(tensor_of(DataType::u8, dims, zeros)); };
    const int in = bytes.input("x", x.desc.dims);
    bytes.output(bytes.microsoft("DynamicQuantizeLSTM",
                                 {in, bytes.constant(tensor_of(DataType::u8, {1, kIn, kGates}, w)),
                                  bytes.constant(tensor_of(DataType::u8, {1, kHidden, kGates}, r)), kAbsent, kAbsent,
                                  kAbsent, kAbsent, kAbsent, scale(), zero(), scale(), zero()},
                                 attributes));
    const int same = reals.input("x", x.desc.dims);
    reals.output(reals.node("LSTM",
                            {same, reals.constant(tensor_of(DataType::f32, {1, kGates, kIn}, w_real)),
                             reals.constant(tensor_of(DataType::f32, {1, kGates, kHidden}, r_real))},
                            attributes));
    expect_close(run_graph(bytes.graph, {x}).at(0), run_graph(reals.graph, {x}).at(0), 1e-6);
  }
}

// Sizes that are known only when the network runs: expanded then.
TEST(Composite, BehindSizesOfARun) {
  Builder b;
  const int x = b.input("x", {6});
  const int places = b.node("NonZero", {x});  // [1, n]
  const int real = b.node("Cast", {places}, {{"to", std::int64_t{1}}});
  b.output(b.microsoft("QuickGelu", {real}, {{"alpha", 1.0}}));
  const auto outputs = run_graph(b.graph, {tensor_of(DataType::f32, {6}, {0, 1, 0, 0, 1, 1})});
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  expect_close(outputs.at(0), tensor_of(DataType::f32, {1, 3}, {silu(1), silu(4), silu(5)}), 1e-5);
}

// One value for two outputs, and an output that an input becomes.
TEST(Composite, OutputsThatAreOneValue) {
  Builder b;
  const int q = b.input("q", {1, 2, 3, 4}), k = b.input("k", {1, 2, 3, 4});
  const int y = b.node("Attention", {q, k, k}, {}, 23);
  Node& node = b.graph.nodes.back();
  node.outputs = {y, b.graph.add_value("present_key"), b.graph.add_value("present_value")};
  node.desc.output_count = 3;
  for (const int output : std::vector<int>(node.outputs)) b.output(output);
  const auto inputs = inputs_for(b.graph);
  const auto outputs = run_graph(b.graph, inputs);
  ASSERT_EQ(outputs.size(), 3U);
  expect_close(outputs[1], inputs[1], 0, 0);
  expect_close(outputs[2], inputs[1], 0, 0);
}

// Rows in which nothing is attended are 0, not NaN.
TEST(Composite, AttentionOfNothing) {
  Builder b;
  const int q = b.input("q", {1, 1, 2, 4}), k = b.input("k", {1, 1, 3, 4});
  const int mask = b.constant(tensor_of(DataType::boolean, {2, 3}, {1, 0, 1, 0, 0, 0}));
  b.output(b.node("Attention", {q, k, k, mask}, {}, 23));
  const auto outputs = run_graph(b.graph, inputs_for(b.graph));
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(std::isfinite(outputs[0].at(i)));
    EXPECT_EQ(outputs[0].at(i) == 0, i >= 4) << i;
  }
}

// Two pixels of three classes, the second ignored.
TEST(Composite, LossesWeighAndIgnore) {
  const HostTensor scores = tensor_of(DataType::f32, {1, 3, 2}, {1, 2, 3, -1, 0.5, 4});
  const double sum = std::exp(1) + std::exp(3) + std::exp(0.5), loss = std::log(sum) - 3;
  for (const bool weighted : {false, true}) {
    for (const std::string reduction : {"none", "sum", "mean"}) {
      Builder b;
      std::vector<int> inputs{b.input("scores", {1, 3, 2}), b.constant(tensor_of(DataType::s64, {1, 2}, {1, -1}))};
      if (weighted) inputs.push_back(b.constant(tensor_of(DataType::f32, {3}, {7, 2, 9})));
      const int y =
          b.node("SoftmaxCrossEntropyLoss", inputs, {{"reduction", reduction}, {"ignore_index", std::int64_t{-1}}});
      const int log_probabilities = b.graph.add_value("log_prob");
      b.graph.nodes.back().outputs.push_back(log_probabilities);
      b.graph.nodes.back().desc.output_count = 2;
      b.output(y);
      b.output(log_probabilities);
      const auto outputs = run_graph(b.graph, {scores});
      const double weight = weighted && reduction != "mean" ? 2 : 1;
      const HostTensor expected = reduction == "none" ? tensor_of(DataType::f32, {1, 2}, {weight * loss, 0})
                                                      : tensor_of(DataType::f32, {}, {weight * loss});
      expect_close(outputs.at(0), expected, 1e-5);
      EXPECT_NEAR(outputs.at(1).at(2), -loss, 1e-5);
    }
  }
}

// A sequence in two parts gives what it gives at once.
TEST(Composite, CausalConvolutionsGoOnFromTheirState) {
  const HostTensor whole = spread({2, 3, 5}), weights = spread({3, 1, 3}, -1, 1);
  const auto part = [&](std::int64_t from, std::int64_t to) {
    HostTensor tensor = tensor_of(DataType::f32, {2, 3, to - from}, std::vector<double>(6 * (to - from)));
    for (int row = 0; row < 6; ++row) {
      for (std::int64_t i = from; i < to; ++i) tensor.as<float>()[row * (to - from) + i - from] = whole.at(row * 5 + i);
    }
    return tensor;
  };
  const auto run = [&](const HostTensor& x, const HostTensor* state) {
    Builder b;
    std::vector<int> inputs{b.input("x", x.desc.dims), b.constant(weights)};
    std::vector<HostTensor> values{x};
    if (state != nullptr) {
      inputs.insert(inputs.end(), {kAbsent, b.input("state", {2, 3, 2})});
      values.push_back(*state);
    }
    b.output(b.node("CausalConvWithState", inputs, {{"activation", std::string("silu")}}));
    const int after = b.graph.add_value("after");
    b.graph.nodes.back().outputs.push_back(after);
    b.graph.nodes.back().desc.output_count = 2;
    b.output(after);
    return run_graph(b.graph, values);
  };
  const auto all = run(whole, nullptr), first = run(part(0, 1), nullptr), rest = run(part(1, 5), &first[1]);
  expect_close(rest[1], part(3, 5), 0, 0);
  expect_close(rest[1], all[1], 0, 0);
  for (int row = 0; row < 6; ++row) {
    EXPECT_NEAR(first[0].at(row), all[0].at(row * 5), 1e-6);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(rest[0].at(row * 4 + i), all[0].at(row * 5 + 1 + i), 1e-6);
  }
  EXPECT_NE(all[0].at(4), 0);
}

TEST(Composite, SwiGluIsTheGatesSwishTimesTheOther) {
  Builder b;
  const int a = b.input("a", {3}), x = b.input("b", {3});
  b.output(b.node("SwiGLU", {a, x}, {{"alpha", 2.0}}));
  const auto outputs =
      run_graph(b.graph, {tensor_of(DataType::f32, {3}, {1, -2, 0}), tensor_of(DataType::f32, {3}, {3, 5, 7})});
  const auto swish = [](double v) { return v / (1 + std::exp(-2 * v)); };
  expect_close(outputs.at(0), tensor_of(DataType::f32, {3}, {3 * swish(1), 5 * swish(-2), 0}), 1e-5);
}

class BlockedBuilder : public GraphBuilder {
 public:
  int blocked(const std::string& op, std::vector<int> inputs, Attributes attributes = {}) {
    const int value = node(op, std::move(inputs), std::move(attributes), 1);
    graph.nodes.back().desc.domain = "com.microsoft.nchwc";
    return value;
  }
};

TEST(Nchwc, NothingIsLeftOfReorderingWholeBlocks) {
  BlockedBuilder b;
  const int x = b.blocked("ReorderInput", {b.input("x", {1, 16, 6, 6})});
  const int pooled = b.blocked("MaxPool", {x}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  b.output(b.blocked("ReorderOutput", {pooled}, {{"channels", std::int64_t{16}}}));
  EXPECT_EQ(ops_of(with_passes(b.graph, cpu_features())), std::vector<std::string>{"MaxPool"});
}

// As ONNX Runtime's kernels read weights: of a first layer, of others, of depthwise ones.
TEST(Nchwc, WeightsAreInOnnxsOrderAgain) {
  const std::int64_t block = __builtin_cpu_supports("avx512f") != 0 ? 16 : 8, wide = 2 * block, taps = 9;
  const HostTensor first = spread({wide, 3, 3, 3}), second = spread({wide, wide, 3, 3}), each = spread({wide, 1, 3, 3});
  // [O / b][I / c][tap][c of I][b of O]
  const auto reordered = [&](const HostTensor& weights, std::int64_t c) {
    HostTensor moved = *HostTensor::allocate(weights.desc);
    const std::int64_t in = weights.desc.dims[1];
    for (std::int64_t at = 0; at < weights.desc.elements(); ++at) {
      const std::int64_t o = at / (in * taps), i = at / taps % in, tap = at % taps;
      const std::int64_t to = (((o / block * (in / c) + i / c) * taps + tap) * c + i % c) * block + o % block;
      moved.as<float>()[to] = weights.as<float>()[at];
    }
    return moved;
  };
  const Attributes pads{{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}};
  Attributes depthwise = pads;
  depthwise["group"] = wide;
  const std::int64_t channels = wide - 4;
  GraphBuilder plain;
  int y = plain.node("Conv", {plain.input("x", {1, 3, 7, 7}), plain.constant(first)}, pads);
  y = plain.node("Conv", {y, plain.constant(second)}, pads);
  y = plain.node("Conv", {y, plain.constant(each)}, depthwise);
  const int starts = plain.constant(tensor_of(DataType::s64, {1}, {0}));
  const int ends = plain.constant(tensor_of(DataType::s64, {1}, {static_cast<double>(channels)}));
  plain.output(plain.node("Slice", {y, starts, ends, plain.constant(tensor_of(DataType::s64, {1}, {1}))}));
  BlockedBuilder b;
  y = b.blocked("Conv", {b.input("x", {1, 3, 7, 7}), b.constant(reordered(first, 1))}, pads);
  y = b.blocked("Conv", {y, b.constant(reordered(second, block))}, pads);
  y = b.blocked("Conv", {y, b.constant(reordered(each, 1))}, depthwise);
  b.output(b.blocked("ReorderOutput", {y}, {{"channels", channels}}));
  const auto inputs = inputs_for(plain.graph);
  expect_close(run_graph(b.graph, inputs).at(0), run_graph(plain.graph, inputs).at(0));
}

TEST(Composite, Errors) {
  const auto refused = [](const Builder& builder, const std::string& text) {
    Graph graph = builder.graph;
    const auto team = make_cpu_team(1);
    const auto log = run_passes(graph, PassContext{*team, cpu_features()});
    ASSERT_FALSE(log.ok());
    EXPECT_NE(log.error().message.find(text), std::string::npos) << log.error().message;
  };
  {
    Builder b;
    const int x = b.input("x", {1, 4, 6, 6}), w = b.constant(spread({8, 4, 3, 3}));
    b.output(b.microsoft("FusedConv", {x, w}, {{"activation", std::string("Frelu")}}));
    refused(b, "(FusedConv): activation='Frelu'");
  }
  {
    Builder b;
    const int x = b.input("x", {2, 5, 16});
    b.output(b.node("Attention", {x, x, x}, {{"q_num_heads", std::int64_t{4}}}, 23));
    refused(b, "(Attention): q_num_heads=4, kv_num_heads=0");
  }
  {
    Builder b;
    const int x = b.input("x", {2, 5, 15});
    b.output(b.node("Attention", {x, x, x}, {{"q_num_heads", std::int64_t{4}}, {"kv_num_heads", std::int64_t{4}}}, 23));
    refused(b, "Q has dims [2x5x15], which are not [N, S, 4 heads]");
  }
  {
    Builder b;
    const int x = b.input("x", {2, 32}), w = b.constant(spread({4, 1, 16}, 0, 255, DataType::u8));
    b.output(b.microsoft("MatMulNBits", {x, w, b.constant(spread({4}))},
                         {{"N", std::int64_t{4}}, {"K", std::int64_t{32}}, {"block_size", std::int64_t{24}}}));
    refused(b, "(MatMulNBits): block_size=24");
    const std::int64_t huge = std::int64_t{1} << 40;  // elements that 64 bits don't count
    b.graph.nodes.back().desc.attributes = {{"N", huge}, {"K", huge}, {"block_size", std::int64_t{32}}};
    refused(b, "(MatMulNBits): N=1099511627776, K=1099511627776");
  }
  {
    Builder b;
    const int data = b.constant(spread({4, 8}, 0, 255, DataType::u8)),
              rows = b.constant(tensor_of(DataType::s64, {}, {1}));
    b.output(
        b.microsoft("GatherBlockQuantized", {data, rows, b.constant(spread({4}))}, {{"block_size", std::int64_t{16}}}));
    refused(b, "(GatherBlockQuantized): scales and zero points need 2 dims");
  }
  {
    Builder b;
    const int x = b.input("x", {2, 5, 4, 8}), cos = b.input("cos", {2, 5, 3}), sin = b.input("sin", {2, 5, 3});
    b.output(b.node("RotaryEmbedding", {x, cos, sin}, {}, 23));
    refused(b, "(RotaryEmbedding): the caches of cosines and sines have 3 angles");
  }
}

// No composite has an operator of the same name, which it would hide.
TEST(Composite, NamesAreTheirOwn) {
  for (const std::string& name : composite_names()) {
    const auto dot = name.rfind('.');
    const bool has_domain = dot != std::string::npos;
    const std::string domain = has_domain ? name.substr(0, dot) : "", op = has_domain ? name.substr(dot + 1) : name;
    EXPECT_EQ(ops::find_operator(domain, op), nullptr) << name;
    EXPECT_NE(find_composite(domain, op), nullptr) << name;
  }
}

}  // namespace
}  // namespace convoy::network
