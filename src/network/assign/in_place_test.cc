// Concats and Splits that copy nothing: which can, and that results are those of copies.
#include "network/assign/in_place.h"

#include <algorithm>

#include "network/testing/plans.h"

namespace convoy::network {
namespace {

const std::map<std::string, ops::Attribute> kChannels{{"axis", std::int64_t{1}}};

// The plan with all Concats and Splits copied, as by hand.
std::string copied(std::string plan) {
  for (std::size_t at = 0; (at = plan.find("\ninplace", at)) != std::string::npos;) plan.replace(at, 8, "\nop     ");
  return plan;
}

// How many nodes are in place; checks that the results are those of copies, bit by bit.
int in_place(const Graph& graph, const std::string& how = "uniform:nchw") {
  NetworkOptions options = test_options();
  options.how = how;
  const std::string plan = plan_for(graph, options);
  int count = 0;
  for (std::size_t at = 0; (at = plan.find("\ninplace", at)) != std::string::npos; ++at) ++count;
  NetworkOptions obeys = test_options();
  obeys.plan = plan_in(plan);
  const auto ran = prepared(graph, obeys);
  obeys.plan = plan_in(copied(plan));
  const auto expected = prepared(graph, obeys);
  EXPECT_TRUE(ran.ok() && expected.ok()) << (ran.ok() ? expected : ran).error().message << plan;
  if (!ran.ok() || !expected.ok()) return -1;
  const auto copies = [](const PreparedRun& of) {
    return std::ranges::count_if(of.steps, [](const NetworkStep& step) {
      return step.implementation == "ops.concat" || step.implementation == "ops.split";
    });
  };
  EXPECT_EQ(copies(*expected) - copies(*ran), count) << plan;
  for (std::size_t i = 0; i < ran->outputs.size(); ++i) expect_close(ran->outputs[i], expected->outputs[i], 0, 0);
  return count;
}

// As in DenseNet: each layer reads all before it, by Concats of the last Concat and what is new.
TEST(InPlace, ConcatsOfConcatsLieInTheLast) {
  GraphBuilder b;
  int all = b.conv(b.input("x", {1, 16, 8, 8}), 16, 16, 3);
  for (int layer = 1; layer < 4; ++layer) {
    all = b.node("Concat", {all, b.conv(b.node("Relu", {all}), 16 * layer, 16, 3)}, kChannels);
  }
  b.output(b.conv(all, 64, 8, 1));
  for (const char* how : {"uniform:nchw", "uniform:nchw8c", "uniform:nchw16c", "global"}) {
    const int count = in_place(b.graph, how);
    EXPECT_TRUE(count == 3 || std::string(how) == "global") << how << ": " << count;
  }
  EXPECT_EQ(in_place(b.graph, "uniform:nhwc"), 0) << "where channels lie side by side, parts are no pieces";
}

// The same as PyTorch exports it: each Concat of everything there is. Where one leaves something out, it is no piece.
TEST(InPlace, ConcatsOfTheSameLieInTheLast) {
  GraphBuilder b;
  std::vector<int> all{b.conv(b.input("x", {1, 16, 8, 8}), 16, 16, 3)};
  for (std::int64_t layer = 1; layer < 4; ++layer) {
    const int joined = layer == 1 ? all[0] : b.node("Concat", all, kChannels);
    all.push_back(b.conv(joined, 16 * layer, 16, 3));
  }
  const int last = b.node("Concat", all, kChannels);
  b.output(b.conv(last, 64, 8, 1));
  EXPECT_EQ(in_place(b.graph), 3);
  b.output(b.conv(b.node("Concat", {all[0], all[2]}, kChannels), 32, 8, 1));
  EXPECT_EQ(in_place(b.graph), 1) << "the later one is first";
}

// As in YOLO: halves of which one goes on, both read again. The Split is of what the Concat begins with.
TEST(InPlace, ASplitOfWhatAConcatJoins) {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 16, 8, 8}), 16, 32, 3);
  const int first = b.node("Split", {x}, kChannels);
  const int second = b.graph.add_value("second");
  b.graph.nodes.back().outputs.push_back(second);
  b.graph.nodes.back().desc.output_count = 2;
  const int more = b.node("Relu", {b.conv(second, 16, 16, 3)});
  const int joined = b.node("Concat", {first, second, more}, kChannels);
  b.output(b.conv(joined, 48, 8, 1));
  EXPECT_EQ(in_place(b.graph), 2);
  EXPECT_EQ(in_place(b.graph, "uniform:nchw16c"), 2);
  b.graph.nodes[3 + 1].inputs = {second, first, more};  // in another order it is copied, and its parts are made apart
  EXPECT_EQ(b.graph.nodes[4].desc.op, "Concat");
  EXPECT_EQ(in_place(b.graph), 1);
}

TEST(InPlace, ASplitAloneHasItsPartsInWhatItReads) {
  GraphBuilder b;
  const int first = b.node("Split", {b.conv(b.input("x", {1, 16, 8, 8}), 16, 32, 3)}, kChannels);
  const int second = b.graph.add_value("second");
  b.graph.nodes.back().outputs.push_back(second);
  b.graph.nodes.back().desc.output_count = 2;
  // In place each, if nothing else were there.
  const int left = b.node("Sigmoid", {first}), right = b.node("Relu", {second});
  b.output(b.conv(b.node("Add", {left, right}), 16, 8, 1));
  EXPECT_EQ(in_place(b.graph), 1);
}

// What is read behind the Concat must not be overwritten by an operator that works in place, nor the other way round.
TEST(InPlace, PiecesAreNotOverwritten) {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 16, 8, 8}), 16, 16, 3), y = b.conv(x, 16, 16, 3);
  const int joined = b.node("Concat", {x, y}, kChannels);
  const int of_joined = b.node("Sigmoid", {joined});
  const int of_x = b.node("Sigmoid", {b.node("Neg", {x})});  // behind, and the last that reads x
  const int sum = b.node("Add", {of_joined, b.node("Concat", {of_x, y}, kChannels)});
  b.output(b.conv(b.node("Mul", {sum, joined}), 32, 8, 1));
  EXPECT_EQ(in_place(b.graph), 1);
}

TEST(InPlace, WhatHasToBeElsewhereIsCopied) {
  const auto joined = [](const std::function<std::vector<int>(GraphBuilder&, int)>& parts, Dims dims,
                         std::int64_t axis = 1) {
    GraphBuilder b;
    const int input = b.input("x", dims), x = b.conv(input, dims[1], 16, 3);
    const int all = b.node("Concat", parts(b, x), {{"axis", axis}});
    b.output(b.node("Sigmoid", {all}));
    return b.graph;
  };
  const Dims dims{1, 16, 8, 8};
  const auto two = [](GraphBuilder& b, int x) { return std::vector{x, b.conv(x, 16, 16, 3)}; };
  EXPECT_EQ(in_place(joined(two, dims)), 1);
  EXPECT_EQ(in_place(joined(two, dims, -3)), 1) << "from behind";
  EXPECT_EQ(in_place(joined(two, {2, 16, 8, 8})), 0) << "images lie between";
  EXPECT_EQ(in_place(joined(two, {1, 16, 3, 5})), 1) << "240 floats are whole cache lines";
  const auto odd = [](GraphBuilder& b, int x) { return std::vector{b.conv(x, 16, 3, 3), x}; };
  EXPECT_EQ(in_place(joined(odd, {1, 16, 3, 5})), 0) << "45 floats are not";
  EXPECT_EQ(in_place(joined(two, dims, 2)), 0) << "channels lie outside";
  EXPECT_EQ(in_place(joined(two, dims, 2), "uniform:nhwc"), 1) << "and inside";
  EXPECT_EQ(in_place(joined(two, dims, 0)), 1);
  const auto twice = [](GraphBuilder&, int x) { return std::vector{x, x}; };
  EXPECT_EQ(in_place(joined(twice, dims)), 0);
  const auto of_input = [](GraphBuilder& b, int x) { return std::vector{x, b.graph.inputs[0]}; };
  EXPECT_EQ(in_place(joined(of_input, dims)), 0);
  const auto constant = [](GraphBuilder& b, int x) { return std::vector{x, b.constant(spread({1, 16, 8, 8}))}; };
  EXPECT_EQ(in_place(joined(constant, dims)), 0);
  const auto output = [](GraphBuilder& b, int x) {
    const int y = b.conv(x, 16, 16, 3);
    b.output(y);
    return std::vector{x, y};
  };
  EXPECT_EQ(in_place(joined(output, dims)), 0);
}

// Two convolutions' results joined.
Graph pair(std::int64_t images) {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {images, 16, 8, 8}), 16, 16, 3);
  b.output(b.node("Sigmoid", {b.node("Concat", {x, b.conv(x, 16, 16, 3)}, kChannels)}));
  return b.graph;
}

TEST(InPlace, APlanThatCannotBeIsRefused) {
  const Graph graph = pair(2);
  NetworkOptions options = test_options();
  options.how = "uniform:nchw";
  const std::string plan = plan_for(graph, options);
  std::string line = line_of(plan, "op       \"Concat"), changed = line;
  options.plan = plan_in(replaced(plan, line, changed.replace(0, 7, "inplace")));
  const auto refused = prepared(graph, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("inplace \"Concat"), std::string::npos) << refused.error().message;
  options.lenient_plan = true;
  const auto ran = prepared(graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  expect_right(graph, *ran);
}

// Limits go by values that have memory of their own; an operator is named by its plan, so nothing changes on replay.
TEST(InPlace, NothingIsWhereMemoryIsLimited) {
  NetworkOptions options = test_options();
  options.how = "global";
  options.memory.activation_limit = 1 << 20;
  EXPECT_EQ(plan_for(pair(1), options).find("inplace"), std::string::npos);
}

}  // namespace
}  // namespace convoy::network
