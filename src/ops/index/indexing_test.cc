// Gather*, Scatter*: values from the operator specification's examples and by hand.
#include <numeric>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

TEST(Gather, PicksBlocks) {
  const HostTensor x = floats({3, 2}, {1, 1.2, 2.3, 3.4, 4.5, 5.7});
  expect_op(node_of("Gather"), {x, longs({2, 2}, {0, 1, 1, -1})},
            {floats({2, 2, 2}, {1, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7})});
  expect_op(node_of("Gather", {{"axis", std::int64_t{1}}}), {x, tensor(DataType::s32, {}, {1})},
            {floats({3}, {1.2, 3.4, 5.7})});
  expect_op(node_of("Gather"), {x, longs({0}, {})}, {floats({0, 2}, {})});
  expect_refused(node_of("Gather"), {x, longs({1}, {3})}, "input 1 (indices) has 3 at 0, outside [-3, 3)");
  expect_refused(node_of("Gather"), {x, longs({2}, {0, -4})}, "input 1 (indices) has -4 at 1");
  expect_refused(node_of("Gather"), {x, floats({1}, {0})}, "input 1 has type f32");
  expect_refused(node_of("Gather"), {floats({}, {1}), longs({1}, {0})}, "axis=0");
}

TEST(Gather, BlocksOfEverySize) {
  constexpr int kOuter = 3, kDim = 11;
  for (const DataType type : {DataType::u8, DataType::bf16, DataType::f32, DataType::f64}) {
    for (const int block : {1, 2, 3, 4, 8, 17}) {
      std::vector<double> x, y;
      for (int i = 0; i < kOuter * kDim * block; ++i) x.push_back(i % 251);
      const std::vector<double> indices = spread(40, -kDim, kDim - 1);
      std::vector<double> whole;
      for (const double index : indices) whole.push_back(std::round(index));
      for (int o = 0; o < kOuter; ++o) {
        for (const double index : whole) {
          const auto from = static_cast<int>(index < 0 ? index + kDim : index);
          for (int k = 0; k < block; ++k) y.push_back(x[(o * kDim + from) * block + k]);
        }
      }
      for (const DataType kind : {DataType::s32, DataType::s64}) {
        expect_op(node_of("Gather", {{"axis", std::int64_t{1}}}),
                  {tensor(type, {kOuter, kDim, block}, x), tensor(kind, {5, 8}, whole)},
                  {tensor(type, {kOuter, 5, 8, block}, y)}, type == DataType::bf16 ? 1 : 0, 0);
      }
    }
  }
}

TEST(Gather, PicksChannels) {
  for (const DataType type : {DataType::u8, DataType::bf16, DataType::f32, DataType::f64}) {
    for (const std::vector<double>& channels : std::vector<std::vector<double>>{
             {0, 2, 4, 6, 8, 10}, {1, 3, 5, 7, 9, 11}, {3, 4, 5}, {-1, -2, -3}, {0, 6, 1, 7, 2, 8}, {5, 5}, {4}, {}}) {
      std::vector<double> x, y;
      for (int i = 0; i < 2 * 12 * 5; ++i) x.push_back(i);
      for (int n = 0; n < 2; ++n) {
        for (const double channel : channels) {
          for (int i = 0; i < 5; ++i) y.push_back(x[(n * 12 + (channel < 0 ? channel + 12 : channel)) * 5 + i]);
        }
      }
      const auto count = static_cast<std::int64_t>(channels.size());
      expect_op(node_of("Gather", {{"axis", std::int64_t{1}}}),
                {tensor(type, {2, 12, 5, 1}, x), longs({count}, channels)}, {tensor(type, {2, count, 5, 1}, y)});
    }
  }
}

TEST(Gather, Elements) {
  const HostTensor x = floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_op(node_of("GatherElements"), {x, longs({2, 3}, {1, 2, 0, 2, 0, 0})}, {floats({2, 3}, {4, 8, 3, 7, 2, 3})});
  expect_op(node_of("GatherElements", {{"axis", std::int64_t{-1}}}), {x, longs({2, 1}, {-1, 0})},
            {floats({2, 1}, {3, 4})});
  expect_refused(node_of("GatherElements"), {x, longs({1, 4}, {0, 0, 0, 0})}, "do not fit");
  expect_refused(node_of("GatherElements"), {x, longs({1, 1}, {3})}, "has 3 at 0");
}

// Along each axis, of fewer elements than the data has along the others.
TEST(Gather, ElementsOfThreeDims) {
  const Dims dims = {4, 6, 9}, picked = {3, 5, 7};
  std::vector<double> data(4 * 6 * 9);
  std::iota(data.begin(), data.end(), 0);
  for (int axis = 0; axis < 3; ++axis) {
    for (const DataType indices_type : {DataType::s64, DataType::s32}) {
      std::vector<double> indices, expected;
      for (std::int64_t i = 0; i < 3 * 5 * 7; ++i) {
        const std::int64_t index = i * 5 % (2 * dims[axis]) - dims[axis];
        std::int64_t o[] = {i / 35, i / 7 % 5, i % 7};
        o[axis] = index < 0 ? index + dims[axis] : index;
        indices.push_back(static_cast<double>(index));
        expected.push_back(data[static_cast<std::size_t>((o[0] * 6 + o[1]) * 9 + o[2])]);
      }
      expect_op(node_of("GatherElements", {{"axis", std::int64_t{axis}}}),
                {floats(dims, data), tensor(indices_type, picked, indices)}, {floats(picked, expected)}, 0, 0);
    }
  }
}

TEST(Gather, Nd) {
  const HostTensor x = floats({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_op(node_of("GatherND"), {x, longs({2, 2}, {0, 1, 1, 0})}, {floats({2, 2}, {2, 3, 4, 5})});
  expect_op(node_of("GatherND", {{"batch_dims", std::int64_t{1}}}), {x, longs({2, 1}, {1, 0})},
            {floats({2, 2}, {2, 3, 4, 5})});
  expect_op(node_of("GatherND"), {x, longs({1, 3}, {-1, -2, -1})}, {floats({1}, {5})});
  expect_refused(node_of("GatherND"), {x, longs({1, 4}, {0, 0, 0, 0})}, "does not fit");
  expect_refused(node_of("GatherND"), {x, longs({1, 2}, {0, 2})}, "has 2 at 1");
  expect_refused(node_of("GatherND", {{"batch_dims", std::int64_t{2}}}), {x, longs({1, 1}, {0})}, "batch_dims=2");
}

TEST(ScatterElements, AlongEachAxis) {
  const std::int64_t dims[] = {3, 4, 5}, small[] = {2, 3, 2};
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<double> data(60, -1), indices, updates;
    for (std::int64_t i = 0; i < 12; ++i) {
      std::int64_t at[] = {i / 6, i / 2 % 3, i % 2};
      const std::int64_t index = (dims[axis] - 1 - at[axis] + i) % dims[axis];
      at[axis] = index;
      data[static_cast<std::size_t>((at[0] * 4 + at[1]) * 5 + at[2])] = static_cast<double>(i);
      indices.push_back(static_cast<double>(i % 2 == 0 ? index : index - dims[axis]));
      updates.push_back(static_cast<double>(i));
    }
    const Dims each(small, small + 3);
    expect_op(node_of("ScatterElements", {{"axis", static_cast<std::int64_t>(axis)}}),
              {floats({3, 4, 5}, std::vector<double>(60, -1)), longs(each, indices), floats(each, updates)},
              {floats({3, 4, 5}, data)});
  }
}

TEST(Scatter, Elements) {
  const HostTensor x = floats({1, 5}, {1, 2, 3, 4, 5});
  const HostTensor at = longs({1, 3}, {1, 3, -4});
  const HostTensor updates = floats({1, 3}, {1.1, 2.1, 0.5});
  const auto node = [](const char* reduction) {
    return node_of("ScatterElements", {{"axis", std::int64_t{1}}, {"reduction", reduction}});
  };
  expect_op(node("none"), {x, at, updates}, {floats({1, 5}, {1, 0.5, 3, 2.1, 5})});
  expect_op(node("add"), {x, at, updates}, {floats({1, 5}, {1, 3.6, 3, 6.1, 5})});
  expect_op(node("mul"), {x, at, updates}, {floats({1, 5}, {1, 1.1, 3, 8.4, 5})});
  expect_op(node("min"), {x, at, updates}, {floats({1, 5}, {1, 0.5, 3, 2.1, 5})});
  expect_op(node("max"), {x, at, updates}, {floats({1, 5}, {1, 2, 3, 4, 5})});
  expect_op(node_of("Scatter", {}, 9), {floats({2, 1}, {1, 2}), longs({1, 1}, {1}), floats({1, 1}, {7})},
            {floats({2, 1}, {1, 7})});
  expect_refused(node("mean"), {x, at, updates}, "reduction='mean'");
  expect_refused(node("none"), {x, longs({1, 3}, {1, 3, 5}), updates}, "has 5 at 2");
  expect_refused(node("none"), {x, longs({1, 2}, {1, 3}), updates}, "do not fit");
}

TEST(Scatter, Nd) {
  expect_op(node_of("ScatterND"),
            {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), longs({4, 1}, {4, 3, 1, 7}), floats({4}, {9, 10, 11, 12})},
            {floats({8}, {1, 11, 3, 10, 9, 6, 7, 12})});
  const HostTensor x = floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor at = longs({3, 1}, {0, 0, -1});
  const HostTensor updates = floats({3, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2, 10, 0, 10, 0});
  expect_op(node_of("ScatterND", {{"reduction", "add"}}), {x, at, updates},
            {floats({2, 2, 2}, {4, 5, 6, 7, 15, 6, 17, 8})});
  expect_op(node_of("ScatterND", {{"reduction", "max"}}), {x, at, updates},
            {floats({2, 2, 2}, {2, 2, 3, 4, 10, 6, 10, 8})});
  expect_refused(node_of("ScatterND"), {x, longs({1, 1}, {2}), floats({1, 2, 2}, {1, 1, 1, 1})}, "has 2 at 0");
  expect_refused(node_of("ScatterND"), {x, at, floats({3, 2}, {1, 1, 1, 1, 1, 1})}, "do not fit");
}

}  // namespace
}  // namespace convoy::ops
