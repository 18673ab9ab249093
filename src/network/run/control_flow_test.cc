// If, Loop and what data decides: what is decided when a network is prepared, what is kept from run to run, and errors.
// That the results are right: tests/python/control_flow_test.py.
#include <algorithm>

#include "network/graph/pass.h"
#include "network/run/islands.h"
#include "network/testing/passes.h"
#include "network/testing/plans.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor flag(bool value) { return tensor_of(DataType::boolean, {}, {value ? 1.0 : 0.0}); }
HostTensor number(double value) { return tensor_of(DataType::s64, {}, {value}); }

// A body whose inputs are those values; f32 unless said otherwise.
struct Body {
  GraphBuilder b;
  int input(const std::string& name, DataType type = DataType::f32) {
    const int id = b.input(name, {}, type);
    b.graph.values[id].known = false;  // known when it runs
    b.graph.input_info.push_back({.name = name, .known_rank = false});
    return id;
  }
  std::shared_ptr<const Graph> finish(std::initializer_list<int> outputs) {
    for (const int output : outputs) {
      b.output(output);
      b.graph.output_info.push_back({.name = b.graph.values[output].name, .known_rank = false});
    }
    return std::make_shared<const Graph>(b.graph);
  }
};

// c ? then(x) : otherwise(x)
int add_if(GraphBuilder& b, int condition, int x, const std::string& then, const std::string& otherwise) {
  const int y = b.node("If", {condition, x});
  Node& node = b.graph.nodes.back();
  node.captured = 1;
  for (const std::string& op : {then, otherwise}) {
    Body body;
    const int in = body.input("x");
    node.bodies.push_back(body.finish({body.b.node(op, {in})}));
  }
  return y;
}

// `trips` times h = h + x, from h = x; the second output has each h.
std::pair<int, int> add_loop(GraphBuilder& b, int trips, int x) {
  const int y = b.node("Loop", {trips, kAbsent, x, x});
  const int rows = b.graph.add_value("rows");
  Node& node = b.graph.nodes.back();
  node.outputs.push_back(rows);
  node.captured = 1;
  Body body;
  body.input("i", DataType::s64);
  const int go = body.input("go", DataType::boolean), h = body.input("h"), step = body.input("x");
  const int sum = body.b.node("Add", {h, step});
  node.bodies = {body.finish({go, sum, sum})};
  return {y, rows};
}

int left(const Graph& graph) {
  return static_cast<int>(std::ranges::count_if(graph.nodes, [](const Node& node) { return !node.bodies.empty(); }));
}

TEST(ControlFlow, WhatConstantsDecideIsNoNodeAnyMore) {
  for (const bool condition : {true, false}) {
    GraphBuilder b;
    const int x = b.input("x", {2, 3});
    b.output(add_if(b, b.constant(flag(condition)), x, "Neg", "Abs"));
    const Graph graph = with_passes(b.graph, test_options().cpu);
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(graph.nodes[0].desc.op, condition ? "Neg" : "Abs");
  }
  GraphBuilder b;
  const auto [y, rows] = add_loop(b, b.constant(number(3)), b.input("x", {2, 3}));
  b.output(y);
  b.output(rows);
  const Graph graph = with_passes(b.graph, test_options().cpu);
  EXPECT_EQ(left(graph), 0);
  EXPECT_EQ(std::ranges::count(graph.nodes, "Add", [](const Node& node) { return node.desc.op; }), 3);
  const auto outputs = run_graph(b.graph, {spread({2, 3})});
  ASSERT_EQ(outputs[1].desc.dims, (Dims{3, 2, 3}));
  for (std::int64_t i = 0; i < 18; ++i) {
    EXPECT_NEAR(outputs[1].at(i), spread({2, 3}).at(i % 6) * static_cast<double>(2 + i / 6), 1e-5);
  }
}

// What no trip changes is computed once; what may fail on values stays where it is, should there be no trip.
TEST(ControlFlow, WhatAllTripsShareGoesBeforeTheLoop) {
  GraphBuilder b;
  const int n = b.input("n", {}, DataType::s64), h = b.input("h", {2}), x = b.input("x", {2});
  const int index = b.input("index", {2}, DataType::s64);
  // x is handed on as it is.
  const int y = b.node("Loop", {n, kAbsent, h, x, index});
  Node& node = b.graph.nodes.back();
  const int still_x = b.graph.add_value("still x");
  node.outputs.push_back(still_x);
  node.captured = 1;
  Body body;
  body.input("i", DataType::s64);
  const int go = body.input("go", DataType::boolean), state = body.input("h"), same = body.input("x");
  const int at = body.input("index", DataType::s64);
  const int two = body.b.constant(tensor_of(DataType::f32, {}, {2}));
  const int twice = body.b.node("Mul", {body.b.node("Neg", {same}), two});
  const int sum = body.b.node("Add", {body.b.node("Add", {state, twice}), body.b.node("Gather", {same, at})});
  node.bodies = {body.finish({go, sum, body.b.node("Identity", {same})})};
  b.output(y);
  b.output(b.node("Abs", {still_x}));
  const Graph graph = with_passes(b.graph, cpu_features());
  const auto all = ops_of(graph);
  EXPECT_EQ(std::ranges::count(all, "Neg") + std::ranges::count(all, "Mul"), 2);
  const auto loop = std::ranges::find(graph.nodes, "Loop", [](const Node& each) { return each.desc.op; });
  ASSERT_NE(loop, graph.nodes.end());
  auto left = ops_of(*loop->bodies[0]);
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector<std::string>{"Add", "Add", "Gather"}));
  const HostTensor from = tensor_of(DataType::f32, {2}, {1, 2}), by = tensor_of(DataType::f32, {2}, {10, 20});
  const auto results = run_graph(b.graph, {number(3), from, by, tensor_of(DataType::s64, {2}, {1, 0})});
  expect_close(results.at(0), tensor_of(DataType::f32, {2}, {1 + 3 * (20 - 20), 2 + 3 * (10 - 40)}), 1e-5);
  expect_close(results.at(1), by, 0);
  const auto untouched = run_graph(b.graph, {number(0), from, by, tensor_of(DataType::s64, {2}, {7, 7})});
  expect_close(untouched.at(0), from, 0);
  EXPECT_EQ(loop->outputs.size(), 1U);
}

TEST(ControlFlow, ManyTripsStayALoop) {
  GraphBuilder b;
  b.output(add_loop(b, b.constant(number(100000)), b.input("x", {2})).first);
  const Graph graph = with_passes(b.graph, test_options().cpu);
  EXPECT_EQ(left(graph), 1);
  const auto outputs = run_graph(b.graph, {tensor_of(DataType::f32, {2}, {1, -2})});
  EXPECT_EQ(outputs[0].at(0), 100001);
  EXPECT_EQ(outputs[0].at(1), -200002);
}

// Nested ones multiply: what unrolling them would take is bounded, however small the file.
TEST(ControlFlow, LoopsInLoopsAreNotUnrolledForever) {
  std::shared_ptr<const Graph> body;
  for (int depth = 0; depth < 6; ++depth) {
    Body made;
    made.input("i", DataType::s64);
    const int go = made.input("go", DataType::boolean), h = made.input("h");
    int y = h;
    if (body) {
      y = made.b.node("Loop", {made.b.constant(number(1000)), kAbsent, h});
      made.b.graph.nodes.back().bodies = {body};
    }
    body = made.finish({go, y});
  }
  GraphBuilder b;
  const int y = b.node("Loop", {b.constant(number(1000)), kAbsent, b.input("x", {2})});
  b.graph.nodes.back().bodies = {body};
  b.output(y);
  EXPECT_GE(left(with_passes(b.graph, test_options().cpu)), 1);
}

TEST(ControlFlow, StepsAreSeen) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 6, 6}), c = b.input("c", {}, DataType::boolean);
  const int h = add_if(b, c, b.conv(x, 4, 4, 3), "Neg", "Abs");
  const auto [y, rows] = add_loop(b, b.input("n", {}, DataType::s64), h);
  b.output(b.node("Relu", {b.conv(y, 4, 8, 1)}));
  b.output(rows);
  const auto session = session_of(b.graph);
  ASSERT_NE(session, nullptr);
  const auto has = [&](const std::string& implementation) {
    return std::ranges::count(session->steps(), implementation, &NetworkStep::implementation);
  };
  EXPECT_EQ(has("if: 1 nodes, else 1, planned at run time"), 1);
  EXPECT_EQ(has("loop: 1 nodes, planned at run time"), 1);
  EXPECT_EQ(has("2 nodes, 1 convolutions, prepared at run time"), 1);
  for (const bool condition : {true, false}) {
    RunStatistics statistics;
    const auto outputs = session->run(std::vector{spread({1, 4, 6, 6}), flag(condition), number(2)}, &statistics);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_EQ((*outputs)[0].desc.dims, (Dims{1, 8, 6, 6}));
    EXPECT_EQ((*outputs)[1].desc.dims, (Dims{2, 1, 4, 6, 6}));
    ASSERT_EQ(statistics.step_seconds.size(), session->steps().size());
    for (const double seconds : statistics.step_seconds) EXPECT_GT(seconds, 0);
  }
}

TEST(ControlFlow, ErrorsNameTheNode) {
  const auto failing = [](const Graph& graph, const std::vector<HostTensor>& inputs, const std::string& text) {
    const auto session = session_of(graph);
    ASSERT_NE(session, nullptr);
    const auto outputs = session->run(inputs);
    ASSERT_FALSE(outputs.ok()) << text;
    EXPECT_NE(outputs.error().message.find(text), std::string::npos) << outputs.error().message;
  };
  const HostTensor x = spread({2, 3});
  GraphBuilder choice;
  const int c = choice.input("c", {2}, DataType::boolean);
  choice.output(add_if(choice, c, choice.input("x", {2, 3}), "Neg", "Abs"));
  failing(choice.graph, {tensor_of(DataType::boolean, {2}, {1, 1}), x}, "(If): the condition is bool [2]");
  GraphBuilder loop;
  const int trips = loop.input("n", {}, DataType::s32);
  loop.output(add_loop(loop, trips, loop.input("x", {2, 3})).first);
  failing(loop.graph, {tensor_of(DataType::s32, {}, {2}), x}, "(Loop): the trip count is s32 []");

  // Rows of other sizes can't be joined.
  GraphBuilder growing;
  const int n = growing.input("n", {}, DataType::s64), start = growing.input("x", {2, 3});
  const int y = growing.node("Loop", {n, kAbsent, start});
  const int rows = growing.graph.add_value("rows");
  growing.graph.nodes.back().outputs.push_back(rows);
  Body body;
  body.input("i", DataType::s64);
  const int go = body.input("go", DataType::boolean), h = body.input("h");
  const int longer = body.b.node("Concat", {h, h}, {{"axis", std::int64_t{0}}});
  growing.graph.nodes.back().bodies = {body.finish({go, longer, longer})};
  growing.output(y);
  growing.output(rows);
  failing(growing.graph, {number(3), x}, "what its trips give to be joined is [4x3] first and [8x3] in trip 1");
  const auto session = session_of(growing.graph);
  const auto once = session->run(std::vector{number(1), x});
  ASSERT_TRUE(once.ok()) << once.error().message;
  EXPECT_EQ((*once)[1].desc.dims, (Dims{1, 4, 3}));
}

// ---- what is prepared together ----

std::vector<std::vector<std::string>> names_of(const Graph& graph) {
  std::vector<std::vector<std::string>> named;
  for (const auto& nodes : islands_of(graph)) {
    named.emplace_back();
    for (const int n : nodes) named.back().push_back(graph.nodes[n].desc.op);
  }
  return named;
}

TEST(Islands, AConvolutionWithWhatFollowsUpToWhereValuesDecide) {
  GraphBuilder b;
  const int x = b.input("x", {}), other = b.node("Exp", {b.input("z", {})});
  const int c = b.node("Relu", {b.conv(x, 4, 4, 3)});
  const int sum = b.node("Add", {b.conv(c, 4, 4, 3), other});
  const int found = b.node("NonZero", {sum});
  b.output(b.node("Neg", {found}));
  b.output(b.node("Sigmoid", {sum}));
  EXPECT_EQ(names_of(b.graph), (std::vector<std::vector<std::string>>{
                                   {"Exp"}, {"Conv", "Relu", "Conv", "Add", "Sigmoid"}, {"NonZero"}, {"Neg"}}));
}

// What leaves and comes back would have to run before and behind it.
TEST(Islands, NothingComesBackIn) {
  GraphBuilder b;
  const int c = b.conv(b.input("x", {}), 4, 4, 3);
  const int found = b.node("Cast", {b.node("NonZero", {c})}, {{"to", std::int64_t{1}}});
  b.output(b.node("Add", {c, found}));
  b.output(b.node("Mul", {c, c}));
  EXPECT_EQ(names_of(b.graph),
            (std::vector<std::vector<std::string>>{{"Conv", "Mul"}, {"NonZero"}, {"Cast"}, {"Add"}}));
}

// A Reshape by sizes goes with its convolution, one by values does not.
TEST(Islands, SizesAreNoValues) {
  GraphBuilder b;
  const int x = b.input("x", {}), given = b.input("shape", {}, DataType::s64);
  const int c = b.conv(x, 4, 4, 3);
  const int by_size = b.node("Reshape", {c, b.node("Shape", {x})});
  b.output(b.node("Reshape", {by_size, given}));
  EXPECT_EQ(names_of(b.graph), (std::vector<std::vector<std::string>>{{"Shape"}, {"Conv", "Reshape"}, {"Reshape"}}));
}

}  // namespace
}  // namespace convoy::network
