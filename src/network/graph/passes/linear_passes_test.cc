// Passes that make one linear operator of several: branches, scales behind a Relu, rows that are added to products.
#include <algorithm>

#include "network/testing/passes.h"

namespace convoy::network {
namespace {

int batch_normalization(GraphBuilder& b, int x, std::int64_t channels) {
  return b.node("BatchNormalization", {x, b.constant(spread({channels}, 0.5, 2)), b.constant(spread({channels}, -1, 1)),
                                       b.constant(spread({channels}, -1, 1)), b.constant(spread({channels}, 0.5, 3))});
}

// A network as it was trained: [kernel, dilation, pad] of each branch.
TEST(BranchMerging, ConvolutionsAndBatchNormalizationsOfOneValueBecomeOne) {
  struct Case {
    std::int64_t groups, stride;
    std::vector<Ints> branches;
    bool normalized, together;  // a BatchNormalization of x as well; by Sum, not by Adds
  };
  for (const Case& c :
       {Case{1, 1, {{1, 1, 0}, {3, 1, 1}}, true, false}, Case{4, 1, {{1, 1, 0}, {5, 1, 2}, {3, 1, 1}}, true, true},
        Case{2, 2, {{3, 1, 1}, {1, 1, 0}, {3, 1, 1}}, false, false}, Case{2, 1, {{3, 2, 2}, {1, 3, 0}}, true, true}}) {
    GraphBuilder b;
    const int x = b.input("x", {2, 4, 7, 6});
    std::vector<int> values;
    if (c.normalized) values.push_back(batch_normalization(b, x, 4));
    for (const Ints& branch : c.branches) {
      std::vector<int> inputs{x, b.constant(spread({4, 4 / c.groups, branch[0], branch[0]}, -0.5, 0.4))};
      if (values.size() != 1) inputs.push_back(b.constant(spread({4}, -1, 1)));
      values.push_back(b.node("Conv", inputs,
                              {{"group", c.groups},
                               {"strides", ints(Ints(2, c.stride))},
                               {"dilations", ints(Ints(2, branch[1]))},
                               {"pads", ints(Ints(4, branch[2]))}}));
    }
    int sum = values[0];
    if (c.together) sum = b.node("Sum", values);
    for (std::size_t i = 1; i < values.size() && !c.together; ++i) sum = b.node("Add", {values[i], sum});
    b.output(b.node("Relu", {sum}));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), Ops{"Conv"});
    EXPECT_EQ(graph.nodes[0].sources.size(), b.graph.nodes.size());
    EXPECT_EQ(graph.nodes[0].fusion.residual, kAbsent);
    expect_same_without("branch_merging", b.graph);
  }
}

TEST(BranchMerging, LeavesWhatIsNoPartOfTheOther) {
  const std::map<std::string, Attribute> pads{{"pads", ints(Ints(4, 1))}};
  const auto with = [&](std::map<std::string, Attribute> more) {
    more.insert(pads.begin(), pads.end());
    return more;
  };
  for (int variant = 0; variant < 8; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int x = b.input("x", {1, 4, 7, 6});
    const int y = conv(b, x, 4, 4, 3);
    int z = kAbsent;
    if (variant == 0) z = conv(b, b.input("z", {1, 4, 7, 6}), 4, 4, 1);
    if (variant == 1) z = b.node("Conv", {x, b.constant(spread({4, 1, 3, 3}))}, with({{"group", std::int64_t{4}}}));
    if (variant == 2) z = b.node("Conv", {x, b.input("w", {4, 4, 1, 1})});
    if (variant == 3) z = b.node("ConvTranspose", {x, b.constant(spread({4, 4, 3, 3}))}, pads);
    if (variant == 4) z = batch_normalization(b, b.node("Neg", {x}), 4);
    if (variant == 5) {  // taps beside the others
      z = b.node("Conv", {x, b.constant(spread({4, 4, 3, 3}))},
                 {{"pads", ints(Ints(4, 2))}, {"dilations", ints({2, 2})}});
    }
    if (variant > 5) z = conv(b, x, 4, 4, 1);
    b.output(b.node("Add", {y, z}));
    if (variant == 6) b.output(z);
    if (variant == 7) b.output(b.node("Neg", {y}));
    const auto count = [](const Graph& graph) { return std::ranges::count(ops_of(graph), "Conv"); };
    const Graph graph = passed(b.graph), before = passed(b.graph, {"branch_merging"});
    EXPECT_EQ(count(graph), count(before));
    expect_same_without("branch_merging", b.graph);
  }
}

// A tap that is small beside the others' sum: where Winograd may run, branches stay.
TEST(BranchMerging, LeavesFiltersThatWouldBecomeUneven) {
  for (const std::int64_t stride : {1, 2}) {
    GraphBuilder b;
    const int x = b.input("x", {1, 4, 6, 6});
    const auto branch = [&](std::int64_t kernel, double size) {
      return b.node("Conv", {x, b.constant(spread({4, 4, kernel, kernel}, size, 2 * size))},
                    {{"pads", ints(Ints(4, kernel / 2))}, {"strides", ints(Ints(2, stride))}});
    };
    const int wide = branch(3, 1e-4);
    b.output(b.node("Add", {wide, branch(1, 1)}));
    EXPECT_EQ(ops_of(passed(b.graph)).size(), stride == 1 ? 2U : 1U);
    expect_same_without("branch_merging", b.graph);
  }
}

// Finite weights whose sum is infinite would make NaN of what is finite.
TEST(BranchMerging, LeavesWhatWouldBecomeInfinite) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 3, 3});
  const auto large = [&] { return b.node("Conv", {x, b.constant(spread({4, 4, 1, 1}, 2e38, 3e38))}); };
  const int first = large();
  b.output(b.node("Add", {first, large()}));
  EXPECT_EQ(ops_of(passed(b.graph)), (Ops{"Conv", "Conv"}));
}

TEST(AffineFolding, PositiveScalesPassARelu) {
  for (int variant = 0; variant < 5; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int relu = b.node("Relu", {conv(b, b.input("x", {2, 3, 5, 5}), 3, 4, 3)});
    int y = kAbsent;
    if (variant == 0) y = b.node("Mul", {relu, b.constant(spread({4, 1, 1}, 0.5, 2))});
    if (variant == 1)
      y = b.node("Div", {b.node("Mul", {b.constant(spread({1}, 2, 2)), relu}), b.constant(spread({1}, 3, 3))});
    if (variant == 2) y = b.node("Mul", {relu, b.constant(spread({4, 1, 1}, -0.5, 2))});
    if (variant == 3) y = b.node("Add", {relu, b.constant(spread({4, 1, 1}, 0.5, 2))});
    if (variant == 4) y = b.node("Mul", {relu, b.constant(spread({4, 1, 1}, 0.5, 2))});
    b.output(y);
    if (variant == 4) b.output(b.node("Neg", {relu}));
    const auto names = ops_of(passed(b.graph));
    EXPECT_EQ(std::ranges::count(names, "Mul") + std::ranges::count(names, "Add"), variant < 2 ? 0 : 1);
    EXPECT_EQ(names.size(), variant < 2 ? 1U : names.size());
    expect_same_without("affine_folding", b.graph);
  }
}

TEST(MatMulBias, RowsJoinTheProduct) {
  for (const DataType type : {DataType::f32, DataType::f64}) {
    GraphBuilder b;
    const auto constant = [&](Dims dims) {
      return b.constant(*converted(spread(dims), TensorDesc::packed(type, dims)));
    };
    const int x = b.input("x", {2, 3, 5}, type);
    int y = b.node("Add", {constant({7}), b.node("MatMul", {x, constant({5, 7})})});
    y = b.node("Add", {b.node("MatMul", {y, constant({2, 7, 4})}), constant({1, 1, 4})});
    b.output(b.node("Add", {b.node("MatMul", {y, constant({4, 1})}), constant({1})}));
    const Graph graph = passed(b.graph);
    ASSERT_EQ(ops_of(graph), (Ops{"MatMul", "MatMul", "MatMul"}));
    EXPECT_EQ(graph.nodes[1].sources, (std::vector<std::string>{"MatMul_2", "Add_3"}));
    expect_same_without("matmul_bias", b.graph);
  }
}

TEST(MatMulBias, LeavesWhatIsNoRow) {
  for (int variant = 0; variant < 6; ++variant) {
    SCOPED_TRACE(variant);
    GraphBuilder b;
    const int y = b.node("MatMul", {b.input("x", {3, 5}), b.constant(spread({5, 3}))});
    int z = kAbsent;
    if (variant == 0) z = b.constant(spread({3, 1}));     // a column
    if (variant == 1) z = b.constant(spread({1, 1, 3}));  // adds a dim
    if (variant == 2) z = b.input("z", {3});
    if (variant == 3) z = y;
    if (variant > 3) z = b.constant(spread({3}));
    b.output(b.node(variant == 4 ? "Sub" : "Add", {y, z}));
    if (variant == 5) b.output(y);
    EXPECT_EQ(passed(b.graph).nodes.size(), 2u);
    expect_same_without("matmul_bias", b.graph);
  }
}

}  // namespace
}  // namespace convoy::network
