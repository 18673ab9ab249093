// Assignments: what relabels, uniform layouts, conversions.
#include <algorithm>

#include "network/assign/layout_rules.h"
#include "network/assign/plan.h"
#include "network/graph/pass.h"
#include "network/testing/plans.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

int count_transposes(const std::vector<NetworkStep>& steps) {
  return static_cast<int>(std::ranges::count(steps, "ops.transpose", &NetworkStep::implementation));
}

TEST(Assignment, TransposesBetweenDescriptionsOfTheSameBytesAreNoSteps) {
  NetworkOptions options = test_options();
  options.skip_passes = {"transpose_sinking"};
  for (const char* engines : {"cpu.direct", "*"}) {
    options.selection.filter.engines = engines;
    const Graph graph = channels_last_block();
    const auto ran = prepared(graph, options);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    EXPECT_EQ(count_transposes(ran->steps), 0) << engines;
    expect_right(graph, *ran);
  }
  options.how = "uniform:nchw";
  const auto ran = prepared(channels_last_block(), options);
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(count_transposes(ran->steps), 2);
}

TEST(Assignment, RelabelledInputsAndOutputs) {
  GraphBuilder b;  // an image with its channels last, and a result likewise
  const int x = from_channels_last(b, b.input("x", {1, 12, 12, 16}));
  const int y = to_channels_last(b, b.conv(x, 16, 16, 3));
  b.output(y);
  b.output(b.node("Relu", {y}));
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const auto ran = prepared(b.graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_LE(count_transposes(ran->steps), 1);
  expect_right(b.graph, *ran);
}

TEST(Assignment, OneLayoutEverywhere) {
  GraphBuilder b;
  int x = b.node("MaxPool", {b.conv(b.input("x", {1, 3, 20, 20}), 3, 24, 3)},
                 {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = b.node("Relu", {b.conv(x, 24, 20, 3)});
  b.output(b.node("GlobalAveragePool", {b.conv(x, 20, 40, 1)}));
  for (const std::string layout : {"nchw", "nhwc", "nchw8c", "nchw16c"}) {
    NetworkOptions options = test_options();
    options.how = "uniform:" + layout;
    const auto ran = prepared(b.graph, options);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    const auto inside = std::ranges::find_if(ran->steps, [](const auto& step) {
      return step.problem.x.dims == Dims{1, 24, 10, 10};
    });
    ASSERT_NE(inside, ran->steps.end());
    EXPECT_TRUE(inside->problem.x.is_packed(*parse_layout(layout))) << layout << ": " << print(inside->problem);
    const auto pooled = std::ranges::find_if(
        ran->steps, [](const auto& s) { return s.kind == "op" && s.output_shape.starts_with("1x24x10x10"); });
    ASSERT_NE(pooled, ran->steps.end());
    // 24 channels are three blocks of 8, and no blocks of 16.
    EXPECT_EQ(pooled->output_shape, "1x24x10x10 " + (layout == "nchw16c" ? "nchw" : layout));
    expect_right(b.graph, *ran);
  }
  NetworkOptions options = test_options();
  options.how = "uniform:chwn";
  const auto refused = prepared(b.graph, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("how='uniform:chwn'"), std::string::npos);
}

// A position embedding, say: what is read is brought into each layout when the network is prepared.
TEST(Assignment, ConvolutionsOfConstants) {
  GraphBuilder b;
  const int y = b.node("Sigmoid", {b.conv(b.constant(spread({1, 16, 6, 5})), 16, 32, 3)});
  b.output(b.node("Add", {b.conv(b.input("x", {1, 16, 6, 5}), 16, 32, 1), b.conv(y, 32, 32, 3)}));
  for (const char* how : {"greedy", "uniform:nchw", "uniform:nhwc", "uniform:nchw8c", "uniform:nchw16c"}) {
    for (const char* engines : {"*", "cpu.direct", "cpu.winograd,reference"}) {
      NetworkOptions options = test_options();
      options.how = how;
      options.selection.filter.engines = engines;
      const auto ran = prepared(b.graph, options);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      SCOPED_TRACE(std::string(how) + " " + engines);
      expect_right(b.graph, *ran);
    }
  }
}

// As in SqueezeNet and DenseNet: what convolutions give is concatenated, normalised and split. In blocks that all parts
// fill the only conversion is the one of the graph's output, as the first convolution reads nchw. Of one image nothing
// is copied.
TEST(Assignment, ConcatNormalizationAndSplitWorkInBlocks) {
  for (const std::int64_t batch : {1, 2}) {
    GraphBuilder b;
    const int x = b.node("Relu", {b.conv(b.input("x", {batch, 16, 12, 12}), 16, 16, 3)});
    const int both = b.node("Concat", {x, b.conv(x, 16, 48, 3)}, {{"axis", std::int64_t{1}}});
    const int normal =
        b.node("BatchNormalization", {both, b.constant(spread({64}, 0.5, 1.5)), b.constant(spread({64}, -1, 1)),
                                      b.constant(spread({64}, -1, 1)), b.constant(spread({64}, 0.5, 1.5))});
    const int half = b.node("Split", {b.node("Relu", {normal})}, {{"axis", std::int64_t{1}}});
    const int other = b.graph.add_value("other half");
    b.graph.nodes.back().outputs.push_back(other);
    b.graph.nodes.back().desc.output_count = 2;
    b.output(b.conv(b.node("Add", {half, other}), 32, 32, 3));
    for (const std::string layout : {"nchw8c", "nchw16c"}) {
      NetworkOptions options = test_options();
      options.how = "uniform:" + layout;
      const auto ran = prepared(b.graph, options);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      std::vector<std::string> operators;
      for (const NetworkStep& step : ran->steps) {
        if (step.kind != "op") continue;
        operators.push_back(step.implementation);
        EXPECT_TRUE(step.output_shape.ends_with(layout)) << step.implementation << " gives " << step.output_shape;
      }
      for (const char* copies : {"ops.concat", "ops.split"}) {
        EXPECT_EQ(std::ranges::count(operators, copies), batch == 1 ? 0 : 1) << ::testing::PrintToString(operators);
      }
      EXPECT_EQ(std::ranges::count(operators, "ops.batch_normalization"), 1);
      EXPECT_LE(std::ranges::count(ran->steps, "convert", &NetworkStep::kind), 2);
      expect_right(b.graph, *ran);
    }
  }
}

// A transposed convolution to one channel is far faster in nchw; the rest of the network stays in nhwc.
TEST(Assignment, AConvolutionMayLeaveItsRegionsLayout) {
  GraphBuilder b;
  int x = b.input("x", {1, 16, 72, 128});
  for (int i = 0; i < 3; ++i) x = b.conv(x, 16, 16, 3);
  b.output(b.node("ConvTranspose", {x, b.constant(spread({16, 1, 2, 2}, -0.1, 0.1))}, {{"strides", Ints{2, 2}}}));
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct,cpu.depthwise";
  const auto ran = prepared(b.graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  for (const NetworkStep& step : ran->steps) {
    if (step.kind != "conv") continue;
    const bool last = step.problem.pass == convoy::Pass::dgrad;
    EXPECT_EQ(last ? step.problem.y.is_packed(Layout::nchw) : step.problem.x.is_packed(Layout::nhwc), true)
        << print(step.problem);
  }
  expect_right(b.graph, *ran);
}

// What is converted at the borders of a region is bytes, not the f32 that they are made of and become.
TEST(Assignment, BordersAreCrossedInBytes) {
  GraphBuilder b;
  const auto scale = [&](double value) { return b.constant(tensor_of(DataType::f32, {}, {value})); };
  const int zero = b.constant(tensor_of(DataType::u8, {}, {100}));
  const int none = b.constant(tensor_of(DataType::s8, {}, {0}));
  const int x = b.input("x", {1, 32, 64, 64});
  int y = b.node("QuantizeLinear", {x, scale(0.02), zero});
  const int w = b.constant(spread({32, 32, 3, 3}, -100, 100, DataType::s8));
  y = b.node("QLinearConv", {y, scale(0.02), zero, w, scale(0.01), none, scale(0.5), zero}, {{"pads", Ints(4, 1)}});
  b.output(b.node("DequantizeLinear", {y, scale(0.5), zero}));
  NetworkOptions options = test_options();
  options.how = "greedy";
  options.selection.filter.engines = "cpu.int8";
  const auto ran = prepared(b.graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  int conversions = 0;
  for (const NetworkStep& step : ran->steps) {
    if (step.kind == "conv") {
      EXPECT_TRUE(step.problem.x.is_packed(Layout::nhwc)) << print(step.problem);
    } else if (step.kind == "convert") {
      ++conversions;
      ASSERT_TRUE(step.writes.has_value());
      EXPECT_EQ(step.writes->type, DataType::u8);
    }
  }
  EXPECT_EQ(conversions, 2);
  expect_right(b.graph, *ran);
}

// z lies as the output does, and weights that the network computes are row-major, whatever layouts are on both sides.
TEST(Assignment, WhatAConvolutionReadsBesides) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 10, 10}), w = b.input("w", {16, 16, 3, 3}), z = b.input("z", {1, 16, 10, 10});
  const int y = b.node("Conv", {b.node("Relu", {x}), b.node("Neg", {w})}, {{"pads", Ints(4, 1)}});
  b.output(b.node("Relu", {b.node("Add", {y, b.node("Sigmoid", {z})})}));
  const auto team = make_cpu_team(1);
  Graph graph = b.graph;
  const NetworkOptions options = test_options();
  ASSERT_TRUE(run_passes(graph, PassContext{*team, options.cpu}).ok());
  const auto inputs = inputs_for(b.graph);
  for (const Layout reads : {Layout::nchw, Layout::nhwc, Layout::nchw8c}) {
    for (const Layout writes : {Layout::nchw, Layout::nhwc, Layout::nchw16c}) {
      Chooser chooser(options, {}, {});
      std::vector<NodeFormats> formats(graph.nodes.size(), NodeFormats{Layout::nhwc, Layout::nhwc});
      for (std::size_t n = 0; n < formats.size(); ++n) {
        if (graph.nodes[n].conv) formats[n] = {reads, writes};
      }
      const auto assignment = assign(graph, formats, chooser);
      ASSERT_TRUE(assignment.ok()) << assignment.error().message;
      NetworkOptions replay = options;
      replay.plan = plan_of(graph, *assignment, header_of(graph, options), chooser);
      const auto session = prepare_graph(b.graph, {.options = replay});
      ASSERT_TRUE(session.ok()) << session.error().message;
      const auto outputs = (*session)->run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      expect_right(b.graph, PreparedRun{*outputs, {}, {}});
    }
  }
}

}  // namespace
}  // namespace convoy::network
