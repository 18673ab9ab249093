// Sessions: layouts and conversions, memory, values only known at run time, timings, the zoo.
#include "network/prepare/session.h"

#include <algorithm>
#include <cmath>

#include "convoy/log.h"
#include "core/tolerance.h"
#include "network/testing/plans.h"

namespace convoy::network {
namespace {

using ops::Attribute;
using Ints = std::vector<std::int64_t>;

int count_kind(const std::vector<NetworkStep>& steps, const std::string& kind) {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(), [&](const auto& s) { return s.kind == kind; }));
}

// Twelve convolutions in a row and a branch: one conversion in, one out, however many readers.
TEST(Layouts, ConvertOnceAtEachBorder) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 24, 24});
  int left = b.conv(x, 16, 16, 3);
  const int right = b.conv(x, 16, 16, 1);
  for (int i = 0; i < 6; ++i) left = b.node("Sigmoid", {b.conv(left, 16, 16, 3)});
  const int sum = b.node("Mul", {left, right});
  b.output(b.conv(b.node("Tanh", {sum}), 16, 16, 3));
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";  // takes nhwc, not nchw
  const auto session = session_of(b.graph, options);
  ASSERT_NE(session, nullptr);
  const auto& steps = session->steps();
  const auto inputs = inputs_for(b.graph);
  const auto result = session->run(inputs);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(count_kind(steps, "convert"), 2);
  int nhwc = 0;
  for (const NetworkStep& step : steps) nhwc += step.kind == "conv" && step.problem.x.is_packed(Layout::nhwc);
  EXPECT_EQ(nhwc, count_kind(steps, "conv"));
  NetworkOptions oracle = test_options();
  oracle.selection.filter.engines = "reference";
  const auto expected = session_of(b.graph, oracle)->run(inputs);
  ASSERT_TRUE(expected.ok());
  expect_close((*result)[0], (*expected)[0]);
}

TEST(Layouts, ARuleThatOnlyTakesTheOtherLayoutGetsIt) {
  GraphBuilder b;
  b.output(b.node("Relu", {b.conv(b.input("x", {1, 16, 9, 9}), 16, 16, 3)}));
  for (const char* engines : {"reference,cpu.direct", "cpu.direct", "cpu.gemm,cpu.direct"}) {
    NetworkOptions options = test_options();
    options.selection.filter.engines = engines;
    options.selection.rules = {{"*", {"cpu.direct", {}}}};
    const auto session = session_of(b.graph, options);
    ASSERT_NE(session, nullptr);
    const auto outputs = session->run(inputs_for(b.graph));
    ASSERT_TRUE(outputs.ok());
    expect_close((*outputs)[0], run_graph(b.graph, inputs_for(b.graph))[0]);
  }
}

// What reports draw: who makes what a step reads, where it lies meanwhile, and when it ran.
TEST(Reports, StepsSayWhatTheyReadAndWhenTheyRan) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 9, 9});
  const int first = b.conv(x, 16, 16, 3);
  b.output(b.node("Mul", {b.node("Sigmoid", {first}), b.node("Tanh", {first})}));
  NetworkOptions options = test_options();
  options.how = "uniform:nchw";
  const auto session = session_of(b.graph, options);
  ASSERT_NE(session, nullptr);
  const auto& steps = session->steps();
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0].inputs, std::vector<int>{-1});
  EXPECT_EQ(steps[1].inputs, std::vector<int>{0});
  EXPECT_EQ(steps[2].inputs, std::vector<int>{0});
  EXPECT_EQ(steps[3].inputs, (std::vector<int>{1, 2}));
  for (const NetworkStep& step : steps) {
    ASSERT_TRUE(step.reads && step.writes);
    EXPECT_EQ(step.writes->dims, (Dims{1, 16, 9, 9}));
    EXPECT_LE(step.workspace_bytes, session->workspace_bytes());
  }
  const auto buffers = session->activations();
  ASSERT_FALSE(buffers.empty());
  EXPECT_EQ(buffers[0].first, 0);
  EXPECT_EQ(buffers[0].last, 3);  // Tanh, its last reader, writes where it reads, for Mul
  for (const ActivationBuffer& each : buffers) {
    EXPECT_LE(static_cast<std::size_t>(each.offset + each.bytes), session->activation_bytes());
  }

  const auto inputs = inputs_for(b.graph);
  const auto trace = session->trace(inputs);
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->steps.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const RunTrace::Span& span = trace->steps[i];
    EXPECT_EQ(span.step, static_cast<int>(i));
    EXPECT_LT(span.begin, span.end);
    EXPECT_GE(span.begin, i == 0 ? 0 : trace->steps[i - 1].end);
    EXPECT_LE(span.end, trace->seconds);
  }
  for (const RunTrace::Span& span : trace->threads) {
    EXPECT_GE(span.begin, trace->steps[static_cast<std::size_t>(span.step)].begin);
    EXPECT_LE(span.end, trace->steps[static_cast<std::size_t>(span.step)].end);
  }
}

TEST(Layouts, WithoutConvolutionsNothingIsConverted) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 9, 9});
  b.output(b.node("Relu", {b.node("Sigmoid", {x})}));
  std::vector<NetworkStep> steps;
  run_graph(b.graph, inputs_for(b.graph), {}, &steps);
  EXPECT_EQ(count_kind(steps, "convert"), 0);
}

TEST(Layouts, OperatorsThatOnlyTakeNchwGetIt) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16, 12, 10});
  int y = b.conv(x, 16, 16, 3);
  y = b.node("Transpose", {y}, {{"perm", Ints{0, 1, 3, 2}}});
  y = b.conv(y, 16, 16, 3);
  b.output(b.node("Reshape", {y, b.constant(tensor_of(DataType::s64, {2}, {16, 120}))}));
  NetworkOptions oracle = test_options();
  oracle.selection.filter.engines = "reference";
  const auto inputs = inputs_for(b.graph);
  const auto expected = session_of(b.graph, oracle)->run(inputs);
  ASSERT_TRUE(expected.ok());
  expect_close(run_graph(b.graph, inputs)[0], (*expected)[0]);
}

TEST(Memory, AChainRunsInTwoBuffersAndElementwiseInPlace) {
  GraphBuilder b;
  int x = b.input("x", {1, 8, 32, 32});
  for (int i = 0; i < 8; ++i) x = b.node("Neg", {b.conv(x, 8, 8, 3)});
  b.output(b.node("Neg", {x}));
  const auto session = session_of(b.graph);
  ASSERT_NE(session, nullptr);
  EXPECT_LE(session->activation_bytes(), 2u * 8 * 32 * 32 * 4);
}

TEST(Memory, InPlaceNeverTouchesInputsOutputsOrSharedValues) {
  GraphBuilder b;
  const int x = b.input("x", {4, 4});
  const int a = b.node("Neg", {x});
  const int r = b.node("Relu", {a});
  b.output(a);
  b.output(b.node("Add", {b.node("Exp", {r}), r}));
  b.output(b.node("Sqrt", {r}));
  const auto inputs = inputs_for(b.graph);
  const auto before = converted(inputs[0], inputs[0].desc);
  const auto outputs = run_graph(b.graph, inputs);
  ASSERT_EQ(outputs.size(), 3u);
  expect_close(inputs[0], *before, 0, 0);
  for (std::int64_t i = 0; i < 16; ++i) {
    const double value = -before->at(i);
    const double relu = std::max(value, 0.0);
    EXPECT_EQ(outputs[0].at(i), value);
    EXPECT_NEAR(outputs[1].at(i), std::exp(relu) + relu, 1e-5);
    EXPECT_NEAR(outputs[2].at(i), std::sqrt(relu), 1e-6);
  }
}

TEST(RunTime, ValuesThatDecideShapesArePlannedFor) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 6, 6});
  const int shape = b.input("shape", {4}, DataType::s64);
  const int y = b.node("Relu", {b.conv(x, 4, 6, 3)});
  const int reshaped = b.node("Reshape", {y, shape});
  b.output(b.node("Neg", {reshaped}));
  b.output(b.node("Neg", {y}));
  const auto session = session_of(b.graph);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->steps().back().implementation, "planned at run time");
  const HostTensor input = spread({1, 4, 6, 6});
  for (const auto& target : {std::vector<double>{1, 6, 4, 9}, {1, 6, 4, 9}, {2, 3, 6, 6}, {1, -1, 1, 1}}) {
    RunStatistics statistics;
    auto outputs = session->run(std::vector{input, tensor_of(DataType::s64, {4}, target)}, &statistics);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_EQ(statistics.step_seconds.size(), session->steps().size());
    ASSERT_EQ((*outputs)[0].desc.elements(), 216);
    EXPECT_EQ((*outputs)[0].desc.dims[0], static_cast<std::int64_t>(target[0]));
    for (std::int64_t i = 0; i < 216; ++i) EXPECT_EQ((*outputs)[0].at(i), (*outputs)[1].at(i));
  }
  EXPECT_FALSE(session->run(std::vector{input, tensor_of(DataType::s64, {4}, {1, 7, 4, 9})}).ok());
}

TEST(RunTime, WeightsAndBiasMayBeInputs) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 6, 6});
  const int w = b.input("w", {4, 3, 3, 3});
  const int bias = b.input("b", {4});
  b.output(b.node("Relu", {b.node("Conv", {x, w, bias})}));
  GraphBuilder fixed;
  const int fx = fixed.input("x", {1, 3, 6, 6});
  const auto inputs = inputs_for(b.graph);
  fixed.output(fixed.node("Relu", {fixed.node("Conv", {fx, fixed.constant(inputs[1]), fixed.constant(inputs[2])})}));
  expect_close(run_graph(b.graph, inputs)[0], run_graph(fixed.graph, {inputs[0]})[0]);
}

// Two convolutions in a row, each an output.
struct TwoConvolutions {
  TwoConvolutions() {
    const int x = b.input("x", {2, 8, 13, 11});
    const int between = b.conv(x, 8, 16, 3);
    b.output(between);
    b.output(b.node("Relu", {b.conv(between, 16, 8, 3)}));
  }
  GraphBuilder b;
};

TEST(Sessions, GiveTheSameForAnyThreadCountAndEveryRun) {
  const TwoConvolutions net;
  const auto inputs = inputs_for(net.b.graph);
  NetworkOptions options = test_options(1);
  options.selection.filter.engines = "cpu.direct";  // its bits don't depend on the thread count
  const auto one = session_of(net.b.graph, options);
  ASSERT_NE(one, nullptr);
  for (const NetworkStep& step : one->steps()) {
    if (step.kind == "conv") options.selection.rules.push_back({"node=" + step.nodes + "*", step.selection.candidate});
  }
  ASSERT_EQ(options.selection.rules.size(), 2u);
  options.threads = 3;
  const auto three = session_of(net.b.graph, options);
  ASSERT_NE(three, nullptr);
  const auto first = one->run(inputs), second = one->run(inputs), other = three->run(inputs);
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  for (int i = 0; i < 2; ++i) {
    expect_close((*first)[i], (*second)[i], 0, 0);
    expect_close((*first)[i], (*other)[i], 0, 0);
  }
}

double largest_of(const HostTensor& tensor) {
  double largest = 0;
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) largest = std::max(largest, std::abs(tensor.at(i)));
  return largest;
}

// What is chosen depends on the thread count and the processor: Winograd for one thread, GEMM for three. Either may be
// off by what core/tolerance.h allows the least accurate, here with a filter's largest weight in all places, and passes
// on what its input is off by.
TEST(Sessions, MayChooseOthersForOtherThreadCounts) {
  const TwoConvolutions net;
  const auto inputs = inputs_for(net.b.graph);
  const auto one = session_of(net.b.graph, test_options(1)), three = session_of(net.b.graph, test_options(3));
  ASSERT_TRUE(one != nullptr && three != nullptr);
  const auto first = one->run(inputs), other = three->run(inputs);
  ASSERT_TRUE(first.ok() && other.ok());
  constexpr double largest_weight = 0.1;
  double error = 0;
  std::size_t output = 0;
  for (const NetworkStep& step : one->steps()) {
    if (step.kind != "conv") continue;
    const ConvProblem& p = step.problem;
    const std::int64_t terms = p.w.elements() / p.w.dims[0];
    const double reach = static_cast<double>(terms) * largest_weight;
    const double largest = largest_of(output == 0 ? inputs[0] : (*first)[0]);
    const ReductionMagnitude magnitude{terms, (largest + error) * reach};
    const double largest_out = largest_of((*first)[output]) + error * reach;
    error = error * reach + error_before_rounding(p, magnitude, largest_out, {}, Arithmetic::winograd) +
            half_ulp(p.y.type, largest_out);
    SCOPED_TRACE(step.nodes + ", error " + std::to_string(error));
    expect_close((*other)[output], (*first)[output], 0, 2 * error);
    ++output;
  }
  EXPECT_EQ(output, 2u);
}

TEST(Sessions, RulesNameNodes) {
  GraphBuilder b;
  const int x = b.input("x", {1, 8, 9, 9});
  b.output(b.conv(b.conv(x, 8, 8, 3), 8, 8, 3));
  NetworkOptions options = test_options();
  options.selection.rules = {{"node=Conv_1", {"reference", {}}}};
  const auto session = session_of(b.graph, options);
  ASSERT_NE(session, nullptr);
  int oracle = 0;
  for (const NetworkStep& step : session->steps()) oracle += step.implementation.starts_with("reference");
  EXPECT_EQ(oracle, 1);
}

TEST(Sessions, RefuseNoThreads) {
  GraphBuilder b;
  b.output(b.node("Relu", {b.input("x", {1})}));
  const auto session = prepare_graph(b.graph, {.options = test_options(0)});
  ASSERT_FALSE(session.ok());
  EXPECT_NE(session.error().message.find("threads=0"), std::string::npos);
}

TEST(Sessions, RefuseATeamOfAnotherSize) {
  GraphBuilder b;
  b.output(b.node("Relu", {b.input("x", {1})}));
  NetworkOptions options = test_options(2);
  options.team = make_cpu_team(3);
  const auto session = prepare_graph(b.graph, {.options = options});
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().message, "team has 3 threads, threads=2");
}

TEST(Preparing, LogsALineForEachStep) {
  GraphBuilder b;
  b.output(b.conv(b.input("x", {1, 16, 8, 8}), 16, 16, 3));
  std::vector<std::string> steps;
  ASSERT_TRUE(set_log(LogLevel::info, [&](LogLevel, std::string_view message) {
                constexpr std::string_view kBegin = "event=prepare step=";
                if (!message.starts_with(kBegin)) return;
                message.remove_prefix(kBegin.size());
                steps.emplace_back(message.substr(0, message.find(' ')));
              }).ok());
  const auto session = session_of(b.graph);
  ASSERT_TRUE(set_log(LogLevel::off, {}).ok());
  EXPECT_EQ(steps, (std::vector<std::string>{"improve", "decide", "dynamic_subgraph", "lower", "allocate"}));
}

TEST(Zoo, ModelsRunAndKeepTheirVariance) {
  for (const std::string name : {"mobilenet_v2", "resnet18", "squeezenet1_1"}) {  // tests/zoo runs all of them
    SCOPED_TRACE(name);
    auto network = Network::load("zoo:" + name);
    ASSERT_TRUE(network.ok()) << network.error().message;
    const HostTensor image = spread({1, 3, 224, 224}, -2, 2);
    auto session = (*network)->prepare(std::vector{image.desc}, test_options());
    ASSERT_TRUE(session.ok()) << session.error().message;
    auto logits = (*session)->run(std::vector{image});
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    ASSERT_EQ((*logits)[0].desc.dims, (Dims{1, 1000}));
    double square = 0;
    for (int i = 0; i < 1000; ++i) square += (*logits)[0].at(i) * (*logits)[0].at(i) / 1000;
    EXPECT_GT(square, 1e-3);
    EXPECT_LT(square, 1e3);
    for (const NetworkStep& step : (*session)->steps()) {
      EXPECT_FALSE(step.kind == "conv" && step.implementation.starts_with("reference")) << step.nodes;
    }
  }
}

}  // namespace
}  // namespace convoy::network
