// Plans: written and obeyed, changed by hand, and their mistakes.
#include "network/assign/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "network/testing/plans.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

Graph sample() {
  GraphBuilder b;
  int x = b.node("MaxPool", {b.conv(b.input("x", {1, 16, 20, 20}), 16, 32, 3)}, {{"kernel_shape", Ints{2, 2}}});
  x = b.node("Softmax", {b.conv(x, 32, 16, 1)}, {{"axis", std::int64_t{3}}});
  b.output(x);
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  b.graph.nodes[0].sources = {"first \"conv\" #1 \\ \\x41 \n"};  // names may be anything
  return b.graph;
}

// A QLinearAdd is part of the convolution before it.
TEST(Plan, QuantizedResidual) {
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
  replay.plan = plan_in(text);
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

TEST(Plan, IsTheSameTextTwiceAndIsObeyed) {
  for (const char* how : {"greedy", "uniform:nhwc", "uniform:nchw", "uniform:nchw16c"}) {
    NetworkOptions options = test_options();
    options.how = how;
    const Graph graph = sample();
    const std::string text = plan_for(graph, options);
    EXPECT_EQ(plan_for(graph, options), text);
    NetworkOptions replay = test_options();
    replay.plan = plan_in(text);
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

// Whatever lines cost, wherever they are, and however often plans have been text.
TEST(Plan, SameChoicesAreWhatIsObeyed) {
  const Graph graph = sample();
  const auto plan = plan_of(graph, {.options = test_options()});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(same_choices(*plan, plan_in(print(*plan))));
  EXPECT_NEAR(plan_in(print(*plan)).cost().seconds, plan->cost().seconds, 1e-3 * plan->cost().seconds);
  const auto changed = [&](const auto& change) {
    NetworkPlan other = *plan;
    change(other);
    return !same_choices(other, *plan);
  };
  const auto conv = std::ranges::find(plan->lines, "conv", &NetworkPlanLine::kind) - plan->lines.begin();
  EXPECT_FALSE(changed([&](NetworkPlan& other) { other.lines[conv].cost = {1, true}; }));
  EXPECT_FALSE(changed([&](NetworkPlan& other) { other.lines[conv].number = 99; }));
  EXPECT_FALSE(changed([&](NetworkPlan& other) { other.remarks = {"of whoever made it"}; }));
  EXPECT_TRUE(changed([&](NetworkPlan& other) { other.lines[conv].one_thread ^= true; }));
  EXPECT_TRUE(changed([&](NetworkPlan& other) { other.lines[conv].runs_on = "reference"; }));
  EXPECT_TRUE(changed([&](NetworkPlan& other) { other.lines[conv].to = "f32,nchw16c"; }));
  EXPECT_TRUE(changed([&](NetworkPlan& other) { other.lines.pop_back(); }));
  EXPECT_TRUE(changed([&](NetworkPlan& other) { other.header.parts.images = 1; }));
  EXPECT_EQ(plan_in(print(*plan) + "# said\n#   twice\n").remarks, (std::vector<std::string>{"said", "  twice"}));
}

TEST(Plan, ALineChangedByHandIsObeyed) {
  NetworkOptions options = test_options();
  options.how = "uniform:nhwc";
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = sample();
  const std::string text = plan_for(graph, options);
  NetworkOptions replay = test_options();
  const std::string line = line_of(text, "conv     \"n2");
  const std::size_t begin = line.find("cpu.direct"), end = line.find(' ', begin);
  replay.plan = plan_in(replaced(text, line, std::string(line).replace(begin, end - begin, "reference")));
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_TRUE(std::ranges::any_of(ran->steps, [](const auto& step) { return step.implementation == "reference"; }));
}

// Before configurations had names: cpu.gemm's tile was 10 * a + b, and what a and b were depended on the layout.
TEST(Plan, AConfigurationMayBeWrittenAsItWas) {
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
    replay.plan = plan_in(replaced(text, line, std::string(line).replace(begin, end - begin, former)));
    const auto ran = prepared(graph, replay);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    ASSERT_EQ(ran->remarks.size(), 1u) << how;
    EXPECT_EQ(plan_for(graph, replay), text + "# " + ran->remarks[0] + "\n");
    EXPECT_NE(ran->remarks[0].find(fmt::format("{} is written {} now", former, named)), std::string::npos)
        << ran->remarks[0];
    // Some of the knobs are enough.
    const std::string part = last ? "cpu.gemm{positions=" + std::to_string(knob_or(knobs, "positions", 0)) + "}"
                                  : "cpu.gemm{channels=" + std::to_string(knob_or(knobs, "channels", 0)) + "}";
    replay.plan = plan_in(replaced(text, line, std::string(line).replace(begin, end - begin, part)));
    const auto completed = prepared(graph, replay);
    ASSERT_TRUE(completed.ok()) << completed.error().message;
    EXPECT_TRUE(completed->remarks.empty());
  }
}

TEST(Plan, WhatIsWrongIsNamedWithItsLine) {
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
    auto refused = parse_plan(wrong);
    if (refused.ok()) {
      replay.plan = *refused;
      refused = plan_of(graph, {.options = replay});
      ASSERT_FALSE(refused.ok()) << says << "\n" << wrong;
      EXPECT_TRUE(refused.error().message.starts_with("plan: ")) << refused.error().message;
    }
    EXPECT_NE(refused.error().message.find(says), std::string::npos)
        << refused.error().message << "\nexpected: " << says;
  }
}

TEST(Plan, LenientChoosesAgainWhatDoesNotFit) {
  const Graph graph = sample();
  NetworkOptions options = test_options();
  options.how = "uniform:nhwc";
  const std::string text = plan_for(graph, options);
  NetworkOptions replay = test_options();
  replay.lenient_plan = true;
  replay.plan = plan_in(replaced(replaced(text, "threads 2", "threads 3"), line_of(text, "conv     \"n2"), ""));
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  ASSERT_EQ(ran->remarks.size(), 2u);
  EXPECT_NE(ran->remarks[0].find("threads 3"), std::string::npos);
  EXPECT_NE(ran->remarks[1].find("\"n2\": the plan has no line for it: chosen again"), std::string::npos);
  expect_right(graph, *ran);
}

TEST(Plan, NewWeightsKeepThePlan) {
  const std::string text = plan_for(sample());
  Graph other = sample();
  for (Value& value : other.values) {
    if (value.constant) value.constant = spread(value.desc.dims, -0.2, 0.3);
  }
  NetworkOptions replay = test_options();
  replay.plan = plan_in(text);
  EXPECT_EQ(plan_for(other, replay), text);
}

}  // namespace
}  // namespace convoy::network
