// What a row's index maps give is what the operator gives, for random nodes of all that only move values.
#include "ops/index_map.h"

#include <numeric>

#include "ops/operator_row.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

class Random {
 public:
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  Dims dims(std::int64_t rank, std::int64_t most = 6) {
    Dims dims;
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(from(1, most));
    return dims;
  }
  HostTensor tensor(const Dims& dims) {
    constexpr DataType kTypes[] = {DataType::f32, DataType::f16, DataType::u8, DataType::s64};
    return tensor(dims, kTypes[from(0, 3)]);
  }
  HostTensor tensor(const Dims& dims, DataType type) { return varied(type, dims, engine_); }
  Ints permutation(std::int64_t rank) {
    Ints order(static_cast<std::size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, engine_);
    return order;
  }

 private:
  std::mt19937 engine_{7};
};

HostTensor list(const Ints& values) {
  return longs({static_cast<std::int64_t>(values.size())}, std::vector<double>(values.begin(), values.end()));
}

// `must`: there has to be a map.
void expect_by_map(const NodeDesc& node, const std::vector<HostTensor>& inputs, bool must = true) {
  SCOPED_TRACE(node.op + " of [" + to_string(inputs[0].desc.dims) + "]");
  const auto expected = run_op(node, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_TRUE(by_map(node, inputs) || !must);
  expect_op(node, inputs, *expected, 0, 0);
}

TEST(IndexMap, GivesWhatTheOperatorGives) {
  Random random;
  for (int i = 0; i < 60; ++i) {
    const Dims dims = random.dims(random.from(1, 5));
    const auto rank = static_cast<std::int64_t>(dims.size());
    const HostTensor x = random.tensor(dims);
    expect_by_map(node_of("Transpose", {{"perm", random.permutation(rank)}}), {x});
    expect_by_map(node_of("Identity"), {x});
    expect_by_map(node_of("Unsqueeze"), {x, list({random.from(0, rank)})});
    expect_by_map(node_of("Flatten", {{"axis", random.from(0, rank)}}), {x});

    Ints starts, ends, steps, pads(static_cast<std::size_t>(2 * rank)), repeats, sizes;
    for (std::int64_t d = 0; d < rank; ++d) {
      starts.push_back(random.from(-7, 7));
      ends.push_back(random.from(-7, 7));
      steps.push_back(random.from(0, 1) == 0 ? random.from(1, 3) : random.from(-3, -1));
      pads[static_cast<std::size_t>(d)] = random.from(-1, 2);
      pads[static_cast<std::size_t>(d + rank)] = random.from(dims[d] > 1 ? -1 : 1, 2);
      repeats.push_back(random.from(0, 3));
      sizes.push_back(random.from(0, 9));
    }
    Ints axes(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    expect_by_map(node_of("Slice"), {x, list(starts), list(ends), list(axes), list(steps)});
    const HostTensor fill = tensor(x.desc.type, {1}, {3});
    expect_by_map(node_of("Pad"), {x, list(pads), random.from(0, 1) == 0 ? fill : absent()});
    expect_by_map(node_of("Tile"), {x, list(repeats)});
    expect_by_map(node_of("CenterCropPad"), {x, list(sizes)});

    Dims broadcast = dims;
    for (std::int64_t& dim : broadcast) dim = random.from(0, 1) == 0 ? 1 : dim;
    expect_by_map(node_of("Expand"), {random.tensor(broadcast), list(dims)});

    const std::int64_t axis = random.from(0, rank - 1);
    std::vector<HostTensor> parts;
    for (std::int64_t part = random.from(2, 4); part > 0; --part) {
      Dims own = dims;
      own[axis] = random.from(0, 5);
      parts.push_back(random.tensor(own, x.desc.type));
    }
    expect_by_map(node_of("Concat", {{"axis", axis}}), parts);
    const std::int64_t first = random.from(0, dims[axis]);
    expect_by_map(node_of("Split", {{"axis", axis}}, 22, 2), {x, list({first, dims[axis] - first})});
    const HostTensor taken = random.from(0, 1) == 0 ? longs({}, {-1}) : list({dims[axis] - 1, 0});
    expect_by_map(node_of("Gather", {{"axis", axis}}), {x, taken});
  }
}

TEST(IndexMap, OfBlocksAndResizes) {
  Random random;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t b = random.from(1, 3);
    const Dims small = random.dims(4, 4);
    const Dims deep{small[0], small[1] * b * b, small[2], small[3]},
        wide{small[0], small[1], small[2] * b, small[3] * b};
    const std::string mode = random.from(0, 1) == 0 ? "DCR" : "CRD";
    expect_by_map(node_of("DepthToSpace", {{"blocksize", b}, {"mode", mode}}, 28), {random.tensor(deep)});
    expect_by_map(node_of("SpaceToDepth", {{"blocksize", b}, {"mode", mode}}, 28), {random.tensor(wide)});
    const std::map<std::string, Attribute> asymmetric{{"coordinate_transformation_mode", std::string("asymmetric")},
                                                      {"nearest_mode", std::string("floor")}};
    expect_by_map(node_of("Resize", asymmetric), {random.tensor(small), absent(), absent(), list(wide)});
    expect_by_map(node_of("Resize", asymmetric), {random.tensor(wide), absent(), absent(), list(small)});
    expect_by_map(node_of("Resize"), {random.tensor(small), absent(), absent(), list(random.dims(4, 9))}, false);
  }
}

TEST(IndexMap, RangesOfIndices) {
  using Range = std::pair<std::int64_t, std::int64_t>;
  const Dims dims{3, 8};
  EXPECT_EQ((Index{5, {{0, -2}}}).range(dims), (Range{1, 5}));
  EXPECT_EQ((Index{-1, {{1, 3, 4}}}).range(dims), (Range{-1, 2}));
  EXPECT_EQ((Index{0, {{1, 1, 1, 4}, {0, 10}}}).range(dims), (Range{0, 23}));
  EXPECT_EQ((Index{0, {{1, 1, 1, 100}}}).range(dims), (Range{0, 7}));
  const MapSource reversed{0, {5}, {{4, {{0, -2}}}}};
  EXPECT_TRUE(reversed.has_all({3}));
  EXPECT_FALSE(reversed.has_all({4}));
  EXPECT_EQ(reversed.offset({3}), -1);
}

// In other dims: one of either side is a product of the other's, else there is no map.
TEST(IndexMap, OfReshapes) {
  Random random;
  const HostTensor x = random.tensor({2, 12, 1, 5});
  for (const Ints& dims : {Ints{2, 3, 4, 5}, {2, 60}, {24, 5}, {120}, {2, 12, 5}, {1, 2, 2, 2, 3, 1, 5}, {6, 4, 5}}) {
    const bool one_sided = dims.front() != 6;
    expect_by_map(node_of("Reshape"), {x, list(dims)}, one_sided);
    EXPECT_EQ(by_map(node_of("Reshape"), {x, list(dims)}).has_value(), one_sided);
  }
  expect_by_map(node_of("Reshape", {{"allowzero", std::int64_t{1}}}), {floats({0, 3}, {}), list({3, 0})});
}

// What is more than moving has none, and neither has what is no such map.
TEST(IndexMap, IsGivenByWhatMovesAlone) {
  const HostTensor x = floats({1, 2, 4, 4}, spread(32, -1, 1));
  EXPECT_FALSE(by_map(node_of("Relu"), {x}));
  EXPECT_FALSE(by_map(node_of("Pad", {{"mode", std::string("reflect")}}), {x, list({0, 0, 1, 1, 0, 0, 1, 1})}));
  EXPECT_FALSE(by_map(node_of("Gather", {{"axis", std::int64_t{2}}}), {x, list({0, 1, 3})}));
  expect_by_map(node_of("Dropout", {}, 22, 2), {x});
  expect_by_map(node_of("Dropout"), {x});
}

std::vector<IndexMap> maps_of(const NodeDesc& node, const std::vector<HostTensor>& tensors) {
  const OperatorRow& row = *find_row("", node.op);
  std::vector<Input> inputs;
  for (const HostTensor& tensor : tensors) inputs.push_back({true, tensor.desc, tensor.data.get()});
  return row.maps(node, inputs, *row.infer(node, inputs));
}

TEST(IndexMap, SaysWhatLiesSideBySide) {
  const HostTensor a = floats({2, 3}, spread(6, 0, 1)), b = floats({2, 2}, spread(4, 0, 1));
  const auto joined = maps_of(node_of("Concat", {{"axis", std::int64_t{-1}}}), {a, b});
  EXPECT_EQ(joined_dim(joined), 1);
  EXPECT_EQ(split_dim(joined), -1);
  const auto split = maps_of(node_of("Split", {{"axis", std::int64_t{1}}}, 22, 2), {a, list({1, 2})});
  EXPECT_EQ(split_dim(split), 1);
  EXPECT_EQ(joined_dim(split), -1);
  for (const auto& [node, inputs] : {std::pair<NodeDesc, std::vector<HostTensor>>{node_of("Transpose"), {a}},
                                     {node_of("Slice"), {a, list({0}), list({1})}},
                                     {node_of("Expand"), {a, list({4, 2, 3})}}}) {
    EXPECT_EQ(joined_dim(maps_of(node, inputs)), -1) << node.op;
    EXPECT_EQ(split_dim(maps_of(node, inputs)), -1) << node.op;
  }
}

}  // namespace
}  // namespace convoy::ops
