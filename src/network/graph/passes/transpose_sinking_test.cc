// Transposes to channels last meet those back behind what stands between them, and what they stood between fuses.
#include <algorithm>

#include "network/testing/passes.h"

namespace convoy::network {
namespace {

int to_last(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", ints({0, 2, 3, 1})}}); }
int to_first(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", ints({0, 3, 1, 2})}}); }
int list(GraphBuilder& b, Ints values) {
  return b.constant(
      tensor_of(DataType::s64, {static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()}));
}
std::ptrdiff_t transposes(const Graph& graph) { return std::ranges::count(ops_of(graph), "Transpose"); }

// Conv, what `between` makes of it channels last, Conv.
template <class Between>
Graph sandwich(const Between& between, std::int64_t channels = 4) {
  GraphBuilder b;
  const int y = to_last(b, conv(b, b.input("x", {2, 3, 6, 5}), 3, 4, 3));
  b.output(conv(b, to_first(b, between(b, y)), channels, 2, 3));
  return b.graph;
}

TEST(TransposeSinking, WhatIsBetweenFusesOrWorksChannelsFirst) {
  struct Case {
    const char* what;
    int (*between)(GraphBuilder& b, int y);
    Ops left;
    std::int64_t channels = 4;
  };
  const Case cases[] = {
      {"a row",
       [](GraphBuilder& b, int y) {
         return b.node("Relu", {b.node("Add", {y, b.constant(spread({4}, -1, 1))})});
       },
       {"Conv", "Conv"}},
      {"an image",
       [](GraphBuilder& b, int y) {
         return b.node("Mul", {b.constant(spread({6, 5, 4}, -1, 1)), y});
       },
       {"Conv", "Mul", "Conv"}},
      {"pixels",
       [](GraphBuilder& b, int y) {
         return b.node("Sub", {b.constant(spread({1, 6, 5, 1}, -1, 1)), y});
       },
       {"Conv", "Sub", "Conv"}},
      {"a pad",
       [](GraphBuilder& b, int y) {
         return b.node("Pad", {y, list(b, {0, 1, 2, 0, 0, 3, 1, 0})});
       },
       {"Conv", "Conv"}},
      {"a pad of axes",
       [](GraphBuilder& b, int y) {
         return b.node("Pad", {y, list(b, {1, 2, 3, 0}), kAbsent, list(b, {1, -2})});
       },
       {"Conv", "Conv"}},
      {"channels that are padded",
       [](GraphBuilder& b, int y) {
         return b.node("Pad", {y, list(b, {0, 0, 0, 1, 0, 0, 0, 2})});
       },
       {"Conv", "Pad", "Conv"},
       7},
      {"a gate",
       [](GraphBuilder& b, int y) {
         const int mean = b.node("ReduceMean", {y, list(b, {1, 2})}, {{"keepdims", std::int64_t{1}}}, 18);
         return b.node("Mul", {y, b.node("Sigmoid", {mean})});
       },
       {"Conv", "ReduceMean", "Sigmoid", "Mul", "Conv"}},
      {"a sum over channels",
       [](GraphBuilder& b, int y) {
         return b.node("Add", {b.node("ReduceSum", {y, list(b, {-1})}, {{"keepdims", std::int64_t{1}}}), y});
       },
       {"Conv", "ReduceSum", "Add", "Conv"}},
      {"parts",
       [](GraphBuilder& b, int y) {
         const int left = b.node("Slice", {y, list(b, {1}), list(b, {4}), list(b, {-1})});
         const int right = b.node("Slice", {y, list(b, {0, 0, 0, 0}), list(b, {9, 9, 9, 2})});
         return b.node("Concat", {left, b.node("Softmax", {right})}, {{"axis", std::int64_t{3}}});
       },
       {"Conv", "Slice", "Slice", "Softmax", "Concat", "Conv"},
       5},
      {"twice the size",
       [](GraphBuilder& b, int y) {
         return b.node(
             "Resize", {y, kAbsent, b.constant(tensor_of(DataType::f32, {4}, {1, 2, 3, 1}))},
             {{"mode", std::string("nearest")}, {"coordinate_transformation_mode", std::string("asymmetric")}});
       },
       {"Conv", "Resize", "Conv"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const Graph graph = sandwich(c.between, c.channels);
    EXPECT_EQ(ops_of(passed(graph)), c.left);
    EXPECT_EQ(transposes(passed(graph, {"transpose_sinking"})), 2);
    expect_same_without("transpose_sinking", graph);
  }
}

// Two convolutions that are added channels last, whose sum is read both ways, and by a graph's output.
TEST(TransposeSinking, AResidualIsOneEpilogue) {
  GraphBuilder b;
  const int x = b.input("x", {2, 4, 6, 5});
  const int one = to_last(b, conv(b, x, 4, 4, 3));
  const int two = to_last(b, conv(b, to_first(b, b.node("Relu", {one})), 4, 4, 3));
  const int sum = b.node("Relu", {b.node("Add", {two, one})});
  b.output(b.node("ReduceMax", {sum}, {{"axes", ints({1, 2})}, {"keepdims", std::int64_t{0}}}));
  b.output(b.node("ArgMax", {sum}, {{"axis", std::int64_t{3}}, {"keepdims", std::int64_t{0}}}));
  b.output(to_first(b, sum));
  b.output(sum);
  const Graph graph = passed(b.graph);
  EXPECT_EQ(transposes(graph), 1);  // of the last output
  EXPECT_EQ(std::ranges::count(ops_of(graph), "Add"), 0);
  expect_same_without("transpose_sinking", b.graph);
}

TEST(TransposeSinking, OfMoreOrFewerDimsAndInAnotherOrder) {
  for (const Dims& dims : {Dims{2, 3, 7}, Dims{2, 3, 4, 5, 2}}) {
    GraphBuilder b;
    Ints last{0}, first{0, static_cast<std::int64_t>(dims.size()) - 1};
    for (std::size_t d = 2; d < dims.size(); ++d) last.push_back(static_cast<std::int64_t>(d));
    last.push_back(1);
    for (std::size_t d = 1; d + 1 < dims.size(); ++d) first.push_back(static_cast<std::int64_t>(d));
    const int x = b.node("Transpose", {b.input("x", dims)}, {{"perm", ints(last)}});
    const int y = b.node("Add", {b.node("Exp", {x}), b.constant(spread({3}, -1, 1))});
    b.output(b.node("Neg", {b.node("Transpose", {y}, {{"perm", ints(first)}})}));
    EXPECT_EQ(transposes(passed(b.graph)), 0);
    expect_same_without("transpose_sinking", b.graph);
  }
  GraphBuilder b;  // two become one
  const int y = b.node("Exp", {to_last(b, b.input("x", {2, 3, 4, 5}))});
  b.output(b.node("Transpose", {y}, {{"perm", ints({3, 0, 2, 1})}}));
  EXPECT_EQ(transposes(passed(b.graph)), 1);
  expect_same_without("transpose_sinking", b.graph);
}

// No more Transposes than there were, and none moves for nothing.
TEST(TransposeSinking, StaysWhereNothingIsGained) {
  GraphBuilder b;
  const int y = to_last(b, b.input("x", {2, 3, 4, 5}));
  const int matrix = b.constant(spread({3, 2}, -1, 1));
  b.output(b.node("MatMul", {b.node("Exp", {y}), matrix}));
  b.output(b.node("MatMul", {b.node("Neg", {y}), matrix}));
  b.output(b.node("Flatten", {to_first(b, b.node("Mul", {b.input("z", {2, 4, 5, 3}), y}))}));  // z has no twin
  const Graph graph = passed(b.graph);
  EXPECT_EQ(transposes(graph), 2);
  EXPECT_EQ(graph.values[graph.nodes[1].inputs[0]].desc.dims, (Dims{2, 4, 5, 3}));
  expect_same_without("transpose_sinking", b.graph);
  GraphBuilder only;  // an output's own maker is left
  only.output(to_first(only, to_last(only, only.input("x", {2, 3, 4, 5}))));
  EXPECT_EQ(transposes(passed(only.graph)), 0);
  expect_same_without("transpose_sinking", only.graph);
}

}  // namespace
}  // namespace convoy::network
