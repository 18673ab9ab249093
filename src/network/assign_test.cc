// Assignments: what relabels, uniform layouts, conversions, plan files and their mistakes.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "network/assign/plan_file.h"
#include "network/assign/sides.h"
#include "network/pass.h"
#include "network/testing.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

int to_channels_last(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}); }
int from_channels_last(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}}); }

int count_transposes(const std::vector<NetworkStep>& steps) {
  return static_cast<int>(std::ranges::count(steps, "ops.transpose", &NetworkStep::implementation));
}

struct Prepared {
  std::vector<HostTensor> outputs;
  std::vector<NetworkStep> steps;
  std::vector<std::string> remarks;
};
Result<Prepared> prepared(const Graph& graph, const NetworkOptions& options) {
  CONVOY_TRY(const auto session, prepare_graph(graph, {.options = options}));
  CONVOY_TRY(auto outputs, session->run(inputs_for(graph)));
  return Prepared{std::move(outputs), session->steps(), session->remarks()};
}
void expect_right(const Graph& graph, const Prepared& ran) {
  NetworkOptions oracle = test_options();
  oracle.selection.filter.engines = "reference";
  oracle.how = "uniform:nchw";
  const auto expected = prepared(graph, oracle);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (std::size_t i = 0; i < ran.outputs.size(); ++i) expect_close(ran.outputs[i], expected->outputs[i]);
}

// As in ConvNeXt: channels last between two convolutions, with the first one's result read behind them as well.
Graph channels_last_block() {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 16, 14, 14}), 16, 32, 3);
  const int inner = b.node("Sigmoid", {b.node("Neg", {to_channels_last(b, x)})});
  const int back = from_channels_last(b, inner);
  b.output(b.conv(b.node("Add", {x, back}), 32, 16, 3));
  return b.graph;
}

TEST(Assignment, TransposesBetweenDescriptionsOfTheSameBytesAreNoSteps) {
  NetworkOptions options = test_options();
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

// As in SqueezeNet and DenseNet: what convolutions give is concatenated, normalised and split. In blocks that all parts
// fill the only conversion is the one of the graph's output, as the first convolution reads nchw.
TEST(Assignment, ConcatNormalizationAndSplitWorkInBlocks) {
  GraphBuilder b;
  const int x = b.node("Relu", {b.conv(b.input("x", {1, 16, 12, 12}), 16, 16, 3)});
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
    EXPECT_TRUE(std::ranges::count(operators, "ops.concat") && std::ranges::count(operators, "ops.split") &&
                std::ranges::count(operators, "ops.batch_normalization"))
        << testing::PrintToString(operators);
    EXPECT_LE(std::ranges::count(ran->steps, "convert", &NetworkStep::kind), 2);
    expect_right(b.graph, *ran);
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
      Selector selector(options, {}, {});
      std::vector<Sides> sides(graph.nodes.size(), Sides{Layout::nhwc, Layout::nhwc});
      for (std::size_t n = 0; n < sides.size(); ++n) {
        if (graph.nodes[n].conv) sides[n] = {reads, writes};
      }
      const auto assignment = assign(graph, sides, selector);
      ASSERT_TRUE(assignment.ok()) << assignment.error().message;
      NetworkOptions replay = options;
      replay.plan = plan_text(graph, *assignment, options, selector);
      const auto session = prepare_graph(b.graph, {.options = replay});
      ASSERT_TRUE(session.ok()) << session.error().message;
      const auto outputs = (*session)->run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      expect_right(b.graph, Prepared{*outputs, {}, {}});
    }
  }
}

// ---- plan files ----

Graph sample() {
  GraphBuilder b;
  int x = b.node("MaxPool", {b.conv(b.input("x", {1, 16, 20, 20}), 16, 32, 3)}, {{"kernel_shape", Ints{2, 2}}});
  x = b.node("Softmax", {b.conv(x, 32, 16, 1)}, {{"axis", std::int64_t{3}}});
  b.output(x);
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  b.graph.nodes[0].sources = {"first \"conv\" #1 \\ \\x41 \n"};  // names may be anything
  return b.graph;
}

std::string plan_for(const Graph& graph, NetworkOptions options = test_options()) {
  const auto text = plan_of(graph, {.options = options});
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
  return text.ok() ? *text : "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}
// The line that begins with `begin`, with its end of line.
std::string line_of(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find("\n" + begin) + 1;
  return text.substr(at, text.find('\n', at) + 1 - at);
}

// A line of a plan with `threads` as its thread count; none: without one.
std::string with_threads(const std::string& line, const std::string& threads) {
  const std::size_t arrow = line.find(" -> ") + 4, end = line.find(' ', arrow), cost = line.find("  ", arrow);
  return line.substr(0, end) + (threads.empty() ? "" : " threads=" + threads) + line.substr(cost);
}
std::string on_all_threads(std::string text) {
  const std::string word = " threads=1";
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) text.erase(at, word.size());
  return text;
}

bool same_bits(const Prepared& a, const Prepared& b) {
  return std::memcmp(a.outputs[0].data.get(), b.outputs[0].data.get(),
                     static_cast<std::size_t>(a.outputs[0].desc.bytes())) == 0;
}

// A layer of many millions of multiplications, and behind it layers of a thousand.
Graph tiny_layers() {
  GraphBuilder b;
  int x = b.node("GlobalAveragePool", {b.conv(b.input("x", {1, 32, 64, 64}), 32, 32, 3)});
  for (int i = 0; i < 4; ++i) x = b.node("Softmax", {b.conv(x, 32, 32, 1)}, {{"axis", std::int64_t{1}}});
  b.output(x);
  return b.graph;
}

TEST(Threads, TheLastStepsAreOnOneWhereTheyAreTiny) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const std::string text = plan_for(graph, options);
  const auto ran = prepared(graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->steps.front().threads, 2);
  EXPECT_EQ(ran->steps.back().threads, 1);
  EXPECT_TRUE(std::ranges::is_sorted(ran->steps, std::greater(), &NetworkStep::threads)) << text;
  const auto conv = std::ranges::find(ran->steps, "conv", &NetworkStep::kind);
  EXPECT_EQ(conv->threads, 2) << "the large one";

  // A plan that says nothing of them is obeyed, too.
  NetworkOptions all = test_options();
  all.plan = on_all_threads(text);
  ASSERT_NE(all.plan, text);
  const auto on_all = prepared(graph, all);
  ASSERT_TRUE(on_all.ok()) << on_all.error().message;
  for (const NetworkStep& step : on_all->steps) EXPECT_EQ(step.threads, 2) << step.nodes;
  EXPECT_TRUE(same_bits(*ran, *on_all));

  EXPECT_EQ(plan_for(graph, test_options(1)).find("threads="), std::string::npos) << "all there is";
}

TEST(Threads, ALineSaysThem) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const std::string text = plan_for(graph, options), line = line_of(text, "conv ");
  ASSERT_EQ(line.find("threads="), std::string::npos) << line;
  const auto before = prepared(graph, options);
  ASSERT_TRUE(before.ok());
  for (const auto& [threads, says] : {std::pair{1, "1"}, {2, "2"}}) {
    NetworkOptions replay = test_options();
    replay.plan = replaced(text, line, with_threads(line, says));
    const auto ran = prepared(graph, replay);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    EXPECT_EQ(std::ranges::find(ran->steps, "conv", &NetworkStep::kind)->threads, threads);
    EXPECT_TRUE(same_bits(*before, *ran));
  }
}

// Every line of a node may say one, one of a Transpose that costs nothing, too; conversions follow who wrote the value.
TEST(Threads, ARelabelMaySayThemAndConversionsFollowTheWriter) {
  const Graph graph = channels_last_block();
  const std::string text = plan_for(graph, test_options());
  ASSERT_NE(text.find("\nrelabel"), std::string::npos) << text;
  std::string on_one;
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const bool is_node = line.starts_with("conv ") || line.starts_with("op ") || line.starts_with("relabel ");
    on_one += (is_node ? with_threads(on_all_threads(line), "1") : line) + "\n";
  }
  NetworkOptions replay = test_options();
  replay.plan = on_one;
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << on_one;
  for (const NetworkStep& step : ran->steps) EXPECT_EQ(step.threads, 1) << step.nodes;
  expect_right(graph, *ran);
}

// A team that counts how often it is called.
class CountingTeam final : public ThreadTeam {
 public:
  int size() const override { return team_->size(); }
  void run(FunctionRef<void(int thread)> body) override {
    ++calls;
    team_->run(body);
  }
  int calls = 0;

 private:
  std::unique_ptr<ThreadTeam> team_ = make_cpu_team(2);
};

TEST(Threads, WhatRunsOnOneDoesNotCallTheOthers) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const auto calls = [&](const Graph& graph, const std::string& plan) {
    options.plan = plan;
    const auto team = std::make_shared<CountingTeam>();
    const auto session = prepare_graph(graph, {.options = options, .team = team});
    EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
    if (!session.ok()) return -1;
    const int before = team->calls;
    EXPECT_TRUE((*session)->run(inputs_for(graph)).ok());
    const auto trace = (*session)->trace(inputs_for(graph));
    EXPECT_TRUE(trace.ok());
    for (const RunTrace::Span& span : trace->threads) {
      EXPECT_LT(span.thread, (*session)->steps()[static_cast<std::size_t>(span.step)].threads);
    }
    return team->calls - before;
  };
  GraphBuilder b;
  int x = b.input("x", {1, 8, 6, 6});
  for (int i = 0; i < 4; ++i) x = b.conv(x, 8, 8, 1);
  b.output(x);
  const std::string text = plan_for(b.graph, options);
  EXPECT_EQ(calls(b.graph, ""), 0) << text;
  EXPECT_GT(calls(b.graph, on_all_threads(text)), 0) << text;
}

TEST(Threads, WhatCanBeSwitchedKeepsAll) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const auto convolutions = list_convolutions(graph, {.options = options});
  ASSERT_TRUE(convolutions.ok());
  const std::vector<ConvolutionCandidates> candidates = {{convolutions->back().problem, {{"cpu.direct", {}}}}};
  const auto session = prepare_graph(graph, {.options = options, .candidates = candidates});
  ASSERT_TRUE(session.ok()) << session.error().message;
  for (const NetworkStep& step : (*session)->steps()) {
    if (step.kind == "conv") {
      EXPECT_EQ(step.threads, 2) << step.nodes;
    }
  }
}

// A QLinearAdd is part of the convolution before it.
TEST(PlanFile, QuantizedResidual) {
  GraphBuilder b;
  const auto scalar = [&](DataType type, double value) { return b.constant(tensor_of(type, {}, {value})); };
  const int scale = scalar(DataType::f32, 0.05), zero = scalar(DataType::u8, 120);
  const int x = b.input("x", {1, 16, 6, 6}, DataType::u8);
  const int w = b.constant(spread({16, 16, 1, 1}, -100, 100, DataType::s8));
  const int y = b.node("QLinearConv", {x, scale, zero, w, scalar(DataType::f32, 0.01), scalar(DataType::s8, 0), scale,
                                       scalar(DataType::u8, 99)});
  b.output(b.node("QLinearAdd", {x, scale, zero, y, scale, scalar(DataType::u8, 99), scalar(DataType::f32, 0.08), zero},
                  {}, 1));
  b.graph.nodes.back().desc.domain = "com.microsoft";
  const std::string text = plan_for(b.graph);
  EXPECT_NE(line_of(text, "conv ").find("QLinearConv_0+QLinearAdd_1"), std::string::npos) << text;
  NetworkOptions replay = test_options();
  replay.plan = text;
  EXPECT_EQ(plan_for(b.graph, replay), text);
  const auto direct = prepared(b.graph, test_options()), planned = prepared(b.graph, replay);
  ASSERT_TRUE(direct.ok() && planned.ok()) << (planned.ok() ? "" : planned.error().message);
  EXPECT_EQ(std::ranges::count(planned->steps, "ops.qlinear_add", &NetworkStep::implementation), 0);
  expect_close(planned->outputs[0], direct->outputs[0], 0, 0);
  NetworkOptions apart = test_options();
  apart.skip_passes = {"conv_fusion"};
  const auto separate = prepared(b.graph, apart);
  ASSERT_TRUE(separate.ok()) << separate.error().message;
  EXPECT_EQ(std::ranges::count(separate->steps, "ops.qlinear_add", &NetworkStep::implementation), 1);
  expect_close(direct->outputs[0], separate->outputs[0], 0, 1);
}

TEST(PlanFile, IsTheSameTextTwiceAndIsObeyed) {
  for (const char* how : {"greedy", "uniform:nhwc", "uniform:nchw", "uniform:nchw16c"}) {
    NetworkOptions options = test_options();
    options.how = how;
    const Graph graph = sample();
    const std::string text = plan_for(graph, options);
    EXPECT_EQ(plan_for(graph, options), text);
    NetworkOptions replay = test_options();
    replay.plan = text;
    EXPECT_EQ(plan_for(graph, replay), text) << how;
    const auto direct = prepared(graph, options), planned = prepared(graph, replay);
    ASSERT_TRUE(direct.ok() && planned.ok()) << (planned.ok() ? "" : planned.error().message);
    ASSERT_EQ(direct->steps.size(), planned->steps.size());
    for (std::size_t i = 0; i < direct->steps.size(); ++i) {
      EXPECT_EQ(direct->steps[i].implementation, planned->steps[i].implementation);
      EXPECT_EQ(direct->steps[i].output_shape, planned->steps[i].output_shape);
      EXPECT_EQ(direct->steps[i].threads, planned->steps[i].threads);
    }
    EXPECT_EQ(std::memcmp(direct->outputs[0].data.get(), planned->outputs[0].data.get(),
                          static_cast<std::size_t>(direct->outputs[0].desc.bytes())),
              0);
    EXPECT_TRUE(planned->remarks.empty());
  }
}

TEST(PlanFile, ALineChangedByHandIsObeyed) {
  NetworkOptions options = test_options();
  options.how = "uniform:nhwc";
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = sample();
  const std::string text = plan_for(graph, options);
  NetworkOptions replay = test_options();
  const std::string line = line_of(text, "conv     \"n2");
  const std::size_t begin = line.find("cpu.direct"), end = line.find(' ', begin);
  replay.plan = replaced(text, line, std::string(line).replace(begin, end - begin, "reference"));
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_TRUE(std::ranges::any_of(ran->steps, [](const auto& step) { return step.implementation == "reference"; }));
}

// Before configurations had names: cpu.gemm's tile was 10 * a + b, and what a and b were depended on the layout.
TEST(PlanFile, AConfigurationMayBeWrittenAsItWas) {
  for (const char* how : {"uniform:nhwc", "uniform:nchw"}) {
    NetworkOptions options = test_options();
    options.how = how;
    options.selection.filter.engines = "cpu.gemm";
    const Graph graph = sample();
    const std::string text = plan_for(graph, options);
    const std::string line = line_of(text, "conv     \"n2");
    const std::size_t begin = line.find("cpu.gemm"), end = line.find(' ', begin);
    const std::string named = line.substr(begin, end - begin);
    const KnobValues knobs = parse_candidate(named)->knobs;
    const bool last = knob_or(knobs, "positions", 0) > 0;
    const std::int64_t tile = last ? 10 * knob_or(knobs, "positions", 0) + knob_or(knobs, "channel_vectors", 0)
                                   : 10 * knob_or(knobs, "channels", 0) + knob_or(knobs, "position_vectors", 0);
    const std::string former = "cpu.gemm{tile=" + std::to_string(tile) + "}";
    NetworkOptions replay = test_options();
    replay.plan = replaced(text, line, std::string(line).replace(begin, end - begin, former));
    const auto ran = prepared(graph, replay);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    ASSERT_EQ(ran->remarks.size(), 1u) << how;
    EXPECT_EQ(plan_for(graph, replay), text + "# " + ran->remarks[0] + "\n");
    EXPECT_NE(ran->remarks[0].find(former + " is written " + named + " now"), std::string::npos) << ran->remarks[0];
    // Some of the knobs are enough.
    const std::string part = last ? "cpu.gemm{positions=" + std::to_string(knob_or(knobs, "positions", 0)) + "}"
                                  : "cpu.gemm{channels=" + std::to_string(knob_or(knobs, "channels", 0)) + "}";
    replay.plan = replaced(text, line, std::string(line).replace(begin, end - begin, part));
    const auto completed = prepared(graph, replay);
    ASSERT_TRUE(completed.ok()) << completed.error().message;
    EXPECT_TRUE(completed->remarks.empty());
  }
}

TEST(PlanFile, WhatIsWrongIsNamedWithItsLine) {
  NetworkOptions options = test_options();
  options.how = "uniform:nhwc";
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = sample();
  const std::string text = plan_for(graph, options);
  const std::string conv = line_of(text, "conv     \"n2"), pool = line_of(text, "op       \"n1");
  const std::string convert = line_of(text, "convert");
  const std::size_t cost_begin = pool.rfind("  ") + 2;
  const std::string cost = pool.substr(cost_begin, pool.size() - cost_begin - 1);  // "2us predicted"
  const std::size_t begin = conv.find("cpu.direct"), end = conv.find(' ', begin);
  const auto on = [&](const std::string& candidate) {
    std::string line = conv;
    return replaced(text, conv, line.replace(begin, end - begin, candidate));
  };
  const auto in = [&](const std::string& line, const std::string& from, const std::string& to) {
    return replaced(text, line, replaced(line, from, to));
  };
  const auto on_threads = [&](const std::string& line, const std::string& threads) {
    return replaced(text, line, with_threads(line, threads));
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n# nothing\n", "it is empty"},
      {"plan 1\n", "line 1: a plan begins with 'convoy-plan 1'"},
      {replaced(text, "convoy-plan 1", "convoy-plan 2"), "line 1: version '2'"},
      {replaced(text, "threads 2", "treads 2"), "line 4: 'treads' is unknown"},
      {replaced(text, "threads 2", "threads two"), "line 4"},
      {replaced(text, "threads 2", "threads 0"), "line 4: threads 0 is out of range"},
      {replaced(text, "threads 2\n", ""), "it has no line 'threads'"},
      {replaced(text, "threads 2", "threads 3"), "the plan is for threads 3, there are 2"},
      {replaced(text, "threads 2", "threads 2\nthreads 2"), "line 5: 'threads' again"},
      {replaced(text, "math strict", "math exact"), "line 6: math 'exact'"},
      {replaced(text, "math strict", "math tf32"), "the plan is for math tf32, strict is allowed"},
      {replaced(text, "math strict", "math strict now"), "line 6: 'now' is too much"},
      {replaced(text, "graph ", "graph x"), "line 7: graph 'x"},
      {replaced(text, "graph ", "graph 1"), ""},
      {replaced(text, "f32,1x16x20x20", "f32,1x16x20x21"), "the plan is for input \"x\" f32,1x16x20x21"},
      {in(pool, "op ", "pool "), "'pool' behind the first node"},
      {in(pool, "\"n1\"", "n1"), "a name in double quotes is expected"},
      {in(pool, "n1\"", "n1"), "closing quote is missing"},
      {in(pool, "\"n1\"", "\"nosuch\""), "\"n1\": the plan has no line for it"},
      {in(pool, "MaxPool", "AveragePool"), "\"n1\": AveragePool where the network has MaxPool"},
      {in(pool, "op  ", "conv"), "\"n1\": conv where the network has MaxPool"},
      {in(pool, "f32,nhwc ->", "f32,nhwcc ->"), "nhwcc"},
      {in(pool, "f32,nhwc ->", "f33,nhwc ->"), "f33"},
      {in(pool, "f32,nhwc ->", "u8,nhwc ->"), "\"n1\": it reads f32,nhwc, not u8,nhwc"},
      {in(pool, "f32,nhwc ->", "f16,nhwc ->"), "\"n1\": MaxPool can't read f16,nhwc and write f32,nhwc"},
      {in(pool, "f32,nhwc ->", "f32,nchw16c ->"), "\"n1\": MaxPool can't read f32,nchw16c"},
      {in(pool, "->", "to"), "'to' where -> is expected"},
      {in(pool, cost, "-"), "a column is missing"},
      {in(pool, cost, "fast predicted"), "cost 'fast' is no number of us"},
      {in(pool, cost, "1us guessed"), "source 'guessed'"},
      {in(pool, cost, "- - -"), "'-' is too much"},
      {on_threads(pool, "3"), "line 11: threads=3: it is 1, or all 2"},
      {on_threads(pool, "0"), "line 11: threads=0: it is 1, or all 2"},
      {on_threads(pool, "one"), "line 11: threads=one: it is 1, or all 2"},
      {on_threads(pool, "1 threads=1"), "line 11: a cost's source"},
      {on_threads(convert, "1"), "line 9: threads=1: a convert has none of its own"},
      {on("cpu.drect"), "did you mean cpu.direct"},
      {on("cpu.direct{"), "\"n2\""},
      {on("cpu.direct{size=3}"), "\"n2\""},
      {on("cpu.winograd"), "\"n2\""},
      {replaced(text, conv, ""), "\"n2\": the plan has no line for it"},
      {replaced(text, conv, conv + conv), "\"n2\""},
      {replaced(text, convert, ""), "where convert"},
      {text + convert, "is too much"},
  };
  for (const auto& [wrong, says] : cases) {
    NetworkOptions replay = test_options();
    replay.plan = wrong;
    const auto refused = plan_of(graph, {.options = replay});
    ASSERT_FALSE(refused.ok()) << says << "\n" << wrong;
    EXPECT_NE(refused.error().message.find(says), std::string::npos)
        << refused.error().message << "\nexpected: " << says;
    EXPECT_TRUE(refused.error().message.starts_with("plan: ")) << refused.error().message;
  }
}

TEST(PlanFile, LenientChoosesAgainWhatDoesNotFit) {
  const Graph graph = sample();
  NetworkOptions options = test_options();
  options.how = "uniform:nhwc";
  const std::string text = plan_for(graph, options);
  NetworkOptions replay = test_options();
  replay.lenient_plan = true;
  replay.plan = replaced(replaced(text, "threads 2", "threads 3"), line_of(text, "conv     \"n2"), "");
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  ASSERT_EQ(ran->remarks.size(), 2u);
  EXPECT_NE(ran->remarks[0].find("threads 3"), std::string::npos);
  EXPECT_NE(ran->remarks[1].find("\"n2\": the plan has no line for it: chosen again"), std::string::npos);
  expect_right(graph, *ran);
}

TEST(PlanFile, NewWeightsKeepThePlan) {
  const std::string text = plan_for(sample());
  Graph other = sample();
  for (Value& value : other.values) {
    if (value.constant) value.constant = spread(value.desc.dims, -0.2, 0.3);
  }
  NetworkOptions replay = test_options();
  replay.plan = text;
  EXPECT_EQ(plan_for(other, replay), text);
}

}  // namespace
}  // namespace convoy::network
