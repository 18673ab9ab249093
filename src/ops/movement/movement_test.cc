// Reshape, Squeeze, Transpose, Slice, Concat, Split, Expand, Tile, Pad, Shape, Constant ...: values from the operator
// specification's examples and by hand.
#include <algorithm>
#include <random>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

std::vector<double> iota(std::int64_t count, double first = 0) {
  std::vector<double> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = first + static_cast<double>(i);
  return values;
}

TEST(Reshape, CopiesAndInfersDims) {
  const auto x = iota(24);
  expect_op(node_of("Reshape"), {floats({2, 3, 4}, x), longs({3}, {0, -1, 2})}, {floats({2, 6, 2}, x)});
  expect_op(node_of("Reshape"), {floats({2, 3, 4}, x), longs({1}, {24})}, {floats({24}, x)});
  expect_op(node_of("Reshape", {{"allowzero", std::int64_t{1}}}), {floats({0, 3, 4}, {}), longs({3}, {3, 4, 0})},
            {floats({3, 4, 0}, {})});
  expect_op(node_of("Reshape"), {floats({1}, {5}), longs({0}, {})}, {floats({}, {5})});
  expect_refused(node_of("Reshape"), {floats({2, 3}, iota(6)), longs({2}, {-1, -1})}, "more than one dim is -1");
  expect_refused(node_of("Reshape"), {floats({2, 3}, iota(6)), longs({2}, {4, -1})}, "can't be found");
  expect_refused(node_of("Reshape"), {floats({2, 3}, iota(6)), longs({2}, {4, 2})}, "8 elements against 6");
  expect_refused(node_of("Reshape"), {floats({2}, {1, 2}), longs({3}, {1, 2, 0})}, "copies a dim that is not there");
  expect_refused(node_of("Reshape"), {floats({2}, {1, 2}), longs({3}, {1e18, 1e18, 1e18})}, "overflow");
  expect_op(node_of("Flatten", {{"axis", std::int64_t{-1}}}), {floats({2, 3, 4}, x)}, {floats({6, 4}, x)});
  expect_op(node_of("Flatten", {{"axis", std::int64_t{0}}}), {floats({2, 3, 4}, x)}, {floats({1, 24}, x)});
  expect_refused(node_of("Flatten", {{"axis", std::int64_t{4}}}), {floats({2, 3, 4}, x)}, "axis=4");
}

TEST(Reshape, SqueezeUnsqueeze) {
  expect_op(node_of("Squeeze"), {floats({1, 3, 1}, {1, 2, 3}), longs({1}, {-1})}, {floats({1, 3}, {1, 2, 3})});
  expect_op(node_of("Squeeze"), {floats({1, 3, 1}, {1, 2, 3})}, {floats({3}, {1, 2, 3})});
  expect_op(node_of("Squeeze", {{"axes", Ints{0}}}, 11), {floats({1, 3, 1}, {1, 2, 3})}, {floats({3, 1}, {1, 2, 3})});
  expect_refused(node_of("Squeeze"), {floats({1, 3, 1}, {1, 2, 3}), longs({1}, {1})}, "which is not 1");
  expect_op(node_of("Unsqueeze"), {floats({3}, {1, 2, 3}), longs({2}, {-1, 0})}, {floats({1, 3, 1}, {1, 2, 3})});
  expect_op(node_of("Unsqueeze", {{"axes", Ints{1}}}, 11), {floats({3}, {1, 2, 3})}, {floats({3, 1}, {1, 2, 3})});
  expect_refused(node_of("Unsqueeze"), {floats({3}, {1, 2, 3}), longs({2}, {1, 1})}, "given twice");
  expect_refused(node_of("Unsqueeze"), {floats({3}, {1, 2, 3}), longs({1}, {2})}, "axes[0]=2");
}

TEST(Movement, Transpose) {
  expect_op(node_of("Transpose"), {floats({2, 3}, iota(6))}, {floats({3, 2}, {0, 3, 1, 4, 2, 5})});
  // Beyond one tile, for every permutation and element size.
  const Dims dims{3, 18, 5, 37};
  Ints perm{0, 1, 2, 3};
  do {
    Dims to;
    for (const auto d : perm) to.push_back(dims[d]);
    for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::f64}) {
      const auto from = spread(3 * 18 * 5 * 37, 0, 100);
      std::vector<double> values(from.size());
      Ints x(4);
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t rest = static_cast<std::int64_t>(i);
        for (int d = 3; d >= 0; --d) {
          x[perm[d]] = rest % to[d];
          rest /= to[d];
        }
        values[i] = from[((x[0] * 18 + x[1]) * 5 + x[2]) * 37 + x[3]];
      }
      expect_op(node_of("Transpose", {{"perm", perm}}), {tensor(type, dims, from)}, {tensor(type, to, values)});
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
  expect_refused(node_of("Transpose", {{"perm", Ints{0, 0}}}), {floats({2, 3}, iota(6))}, "no permutation");
  expect_refused(node_of("Transpose", {{"perm", Ints{0}}}), {floats({2, 3}, iota(6))}, "perm has 1 entries");
}

// Dims beyond a tile, whole ones and not, read in runs and written in runs; few tiles for the threads and many; rows of
// one square and a half, and of two.
TEST(Movement, TransposeOfManyTiles) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::f64}) {
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1031, 70},
                                        {70, 1031},
                                        {600, 523},
                                        {64, 2048},
                                        {12, 701},
                                        {15, 701},
                                        {20, 701},
                                        {31, 701}}) {
      const HostTensor x = varied(type, {2, rows, columns}, random);
      HostTensor want = *HostTensor::allocate(TensorDesc::packed(type, {2, columns, rows}));
      for (std::int64_t i = 0; i < x.desc.elements(); ++i) {
        const std::int64_t n = i / (rows * columns), r = i / columns % rows, c = i % columns;
        store_from_double(type, want.data.get(), (n * columns + c) * rows + r, x.at(i));
      }
      expect_op(node_of("Transpose", {{"perm", Ints{0, 2, 1}}}), {x}, {want}, 0, 0);
    }
  }
}

TEST(Movement, Slice) {
  const HostTensor x = floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_op(node_of("Slice"), {x, longs({2}, {1, 0}), longs({2}, {2, 3}), longs({2}, {0, 1}), longs({2}, {1, 2})},
            {floats({1, 2}, {5, 7})});
  expect_op(node_of("Slice"), {x, longs({2}, {0, 1}), longs({2}, {-1, 1000})}, {floats({1, 3}, {2, 3, 4})});
  expect_op(node_of("Slice"), {x, longs({1}, {1000}), longs({1}, {-1000}), longs({1}, {-1}), longs({1}, {-1})},
            {floats({2, 4}, {4, 3, 2, 1, 8, 7, 6, 5})});
  expect_op(node_of("Slice"), {x, longs({1}, {-10}), longs({1}, {-1000}), longs({1}, {-1}), longs({1}, {-1})},
            {floats({2, 1}, {1, 5})});
  expect_op(node_of("Slice"),
            {floats({2, 0}, {}), longs({1}, {5}), longs({1}, {-1000}), longs({1}, {-1}), longs({1}, {-1})},
            {floats({2, 0}, {})});
  expect_op(node_of("Slice"), {x, longs({1}, {3}), longs({1}, {0}), longs({1}, {1}), longs({1}, {-2})},
            {floats({2, 2}, {4, 2, 8, 6})});
  expect_op(node_of("Slice"), {x, longs({1}, {3}), longs({1}, {1}), longs({1}, {1}), absent()}, {floats({2, 0}, {})});
  expect_op(node_of("Slice"),
            {x, longs({1}, {-9.2233720368547758e18}), longs({1}, {9.2e18}), longs({1}, {1}), longs({1}, {9.2e18})},
            {floats({2, 1}, {1, 5})});
  expect_op(node_of("Slice", {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{1}}}, 9), {x},
            {floats({2, 2}, {2, 3, 6, 7})});
  // 4D, so that nhwc is tried: the channel and a spatial axis.
  const HostTensor image = floats({1, 3, 2, 2}, iota(12));
  expect_op(node_of("Slice"), {image, longs({2}, {2, 1}), longs({2}, {-4, 2}), longs({2}, {1, 3}), longs({2}, {-2, 1})},
            {floats({1, 2, 2, 1}, {9, 11, 1, 3})});
  expect_refused(node_of("Slice"), {x, longs({1}, {0}), longs({1}, {1}), longs({1}, {2})}, "axes[0]=2");
  expect_refused(node_of("Slice"), {x, longs({1}, {0}), longs({1}, {1}), longs({1}, {0}), longs({1}, {0})},
                 "steps[0] is 0");
  expect_refused(node_of("Slice"), {x, longs({2}, {0, 0}), longs({1}, {1})}, "have 2, 1, 2 and 2 entries");
}

// Short rows are copied by their bytes.
TEST(Movement, RowsOfEveryLength) {
  constexpr std::int64_t kRows = 5;
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::f64}) {
    for (std::int64_t width = 1; width <= 70; ++width) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(width));
      const std::int64_t whole = width + 3;
      std::vector<double> x, middle, rest;
      for (std::int64_t i = 0; i < kRows * whole; ++i) {
        x.push_back(static_cast<double>(i % 61));
        const std::int64_t column = i % whole;
        if (column >= 1 && column <= width) middle.push_back(x.back());
        if (column > width) rest.push_back(x.back());
      }
      std::vector<double> joined;
      for (std::int64_t row = 0; row < kRows; ++row) {
        joined.insert(joined.end(), middle.begin() + row * width, middle.begin() + (row + 1) * width);
        joined.insert(joined.end(), rest.begin() + row * 2, rest.begin() + (row + 1) * 2);
      }
      const HostTensor slice = tensor(type, {kRows, width}, middle), two = tensor(type, {kRows, 2}, rest);
      expect_op(node_of("Slice"),
                {tensor(type, {kRows, whole}, x), longs({1}, {1}), longs({1}, {static_cast<double>(width + 1)}),
                 longs({1}, {1})},
                {slice});
      expect_op(node_of("Concat", {{"axis", std::int64_t{1}}}), {slice, two},
                {tensor(type, {kRows, width + 2}, joined)});
    }
  }
}

TEST(Movement, ConcatSplit) {
  const HostTensor a = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const HostTensor b = floats({1, 2, 2, 2}, {5, 6, 7, 8, 9, 10, 11, 12});
  const HostTensor joined = floats({1, 3, 2, 2}, iota(12, 1));
  expect_op(node_of("Concat", {{"axis", std::int64_t{1}}}), {a, b}, {joined});
  expect_op(node_of("Concat", {{"axis", std::int64_t{-1}}}), {a, a}, {floats({1, 1, 2, 4}, {1, 2, 1, 2, 3, 4, 3, 4})});
  expect_op(node_of("Concat", {{"axis", std::int64_t{0}}}), {longs({0}, {}), longs({2}, {1, 2})}, {longs({2}, {1, 2})});
  expect_refused(node_of("Concat", {{"axis", std::int64_t{2}}}), {a, b}, "may differ along axis 2 only");
  expect_refused(node_of("Concat"), {a, b}, "'axis' is required");
  expect_refused(node_of("Concat", {{"axis", std::int64_t{0}}}), {a, longs({1, 1, 2, 2}, {1, 2, 3, 4})}, "type");

  expect_op(node_of("Split", {{"axis", std::int64_t{1}}}, 13, 2), {joined, longs({2}, {1, 2})}, {a, b});
  expect_op(node_of("Split", {{"axis", std::int64_t{1}}, {"split", Ints{1, 2}}}, 11, 2), {joined}, {a, b});
  expect_op(node_of("Split", {{"num_outputs", std::int64_t{3}}}, 18, 3), {floats({7}, iota(7))},
            {floats({3}, {0, 1, 2}), floats({3}, {3, 4, 5}), floats({1}, {6})});
  expect_op(node_of("Split", {}, 13, 2), {floats({4}, iota(4))}, {floats({2}, {0, 1}), floats({2}, {2, 3})});
  expect_refused(node_of("Split", {}, 13, 2), {floats({5}, iota(5))}, "can't be split");
  expect_refused(node_of("Split", {}, 18, 4), {floats({5}, iota(5))}, "can't be split");
  expect_refused(node_of("Split", {}, 13, 2), {floats({5}, iota(5)), longs({2}, {-1, 6})}, "does not divide");
  expect_refused(node_of("Split", {}, 13, 2), {floats({5}, iota(5)), longs({2}, {3, 3})}, "does not divide");
}

TEST(Movement, ExpandTile) {
  expect_op(node_of("Expand"), {floats({3, 1}, {1, 2, 3}), longs({3}, {2, 1, 2})},
            {floats({2, 3, 2}, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3})});
  expect_op(node_of("Expand"), {floats({3, 1}, {1, 2, 3}), longs({1}, {1})}, {floats({3, 1}, {1, 2, 3})});
  expect_refused(node_of("Expand"), {floats({3}, {1, 2, 3}), longs({1}, {2})}, "do not broadcast");
  expect_refused(node_of("Expand"), {floats({1}, {1}), longs({1}, {-2})}, "negative dim");
  expect_refused(node_of("Expand"), {floats({1}, {1}), longs({3}, {1e15, 1e15, 2})}, "overflow");
  expect_op(node_of("Tile"), {floats({2, 2}, {0, 1, 2, 3}), longs({2}, {2, 2})},
            {floats({4, 4}, {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3})});
  expect_op(node_of("Tile"), {floats({1, 2, 1, 2}, {0, 1, 2, 3}), longs({4}, {1, 2, 2, 1})},
            {floats({1, 4, 2, 2}, {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3})});
  expect_op(node_of("Tile"), {floats({2}, {0, 1}), longs({1}, {0})}, {floats({0}, {})});
  expect_refused(node_of("Tile"), {floats({2}, {0, 1}), longs({1}, {9e18})}, "input 1 (repeats)");
  expect_refused(node_of("Tile"), {floats({2}, {0, 1}), longs({2}, {1, 1})}, "2 entries for rank 1");
}

TEST(Movement, Pad) {
  const HostTensor x = floats({3, 2}, {1, 1.2, 2.3, 3.4, 4.5, 5.7});
  expect_op(node_of("Pad"), {x, longs({4}, {0, 2, 0, 0})},
            {floats({3, 4}, {0, 0, 1, 1.2, 0, 0, 2.3, 3.4, 0, 0, 4.5, 5.7})});
  expect_op(node_of("Pad"), {x, longs({4}, {0, -1, 1, 1}), floats({}, {9})},
            {floats({4, 2}, {1.2, 9, 3.4, 9, 5.7, 9, 9, 9})});
  expect_op(node_of("Pad", {{"mode", "reflect"}}), {x, longs({4}, {0, 2, 0, 0})},
            {floats({3, 4}, {1, 1.2, 1, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7, 4.5, 5.7})});
  expect_op(node_of("Pad", {{"mode", "edge"}}), {x, longs({4}, {0, 2, 0, 0})},
            {floats({3, 4}, {1, 1, 1, 1.2, 2.3, 2.3, 2.3, 3.4, 4.5, 4.5, 4.5, 5.7})});
  expect_op(node_of("Pad", {{"mode", "wrap"}}), {floats({3}, {1, 2, 3}), longs({2}, {4, 1})},
            {floats({8}, {3, 1, 2, 3, 1, 2, 3, 1})});
  expect_op(node_of("Pad"),
            {floats({1, 2, 1, 2}, {1, 2, 3, 4}), longs({4}, {1, 0, 0, 1}), absent(), longs({2}, {-1, 1})},
            {floats({1, 3, 1, 3}, {0, 1, 2, 0, 3, 4, 0, 0, 0})});
  expect_op(node_of("Pad", {{"pads", Ints{1, 0}}, {"value", 7.0}}, 10), {floats({1}, {1})}, {floats({2}, {7, 1})});
  // What is cut is gone before anything is padded, whichever side it was on.
  const HostTensor line = floats({6}, {0, 1, 2, 3, 4, 5});
  const std::vector<std::tuple<const char*, std::vector<double>, std::vector<double>>> mixed = {
      {"wrap", {2, 3, 4, 5, 2, 3, 4, 5, 2}, {1, 2, 3, 0, 1, 2, 3}},
      {"edge", {2, 3, 4, 5, 5, 5, 5, 5, 5}, {0, 0, 0, 0, 1, 2, 3}},
      {"reflect", {2, 3, 4, 5, 4, 3, 2, 3, 4}, {3, 2, 1, 0, 1, 2, 3}},
      {"constant", {2, 3, 4, 5, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 2, 3}}};
  for (const auto& [mode, cut_before, cut_after] : mixed) {
    const NodeDesc node = node_of("Pad", {{"mode", mode}});
    expect_op(node, {line, longs({2}, {-2, 5})}, {floats({9}, cut_before)});
    expect_op(node, {line, longs({2}, {3, -2})}, {floats({7}, cut_after)});
  }
  expect_op(node_of("Pad", {{"mode", "wrap"}}), {floats({3, 4}, iota(12)), longs({4}, {-1, 1, 2, -2})},
            {floats({4, 3}, {5, 4, 5, 9, 8, 9, 5, 4, 5, 9, 8, 9})});
  expect_refused(node_of("Pad", {{"mode", "wrap"}}), {line, longs({2}, {-6, 2})}, "nothing to pad it with");
  expect_refused(node_of("Pad"), {x, longs({2}, {0, 0})}, "pads has 2 entries for 2 axes");
  expect_refused(node_of("Pad"), {x, longs({4}, {0, -3, 0, 0})}, "pads -3 and 0 for dim 1");
  expect_refused(node_of("Pad", {{"mode", "mirror"}}), {x, longs({4}, {0, 0, 0, 0})}, "mode='mirror'");
  expect_refused(node_of("Pad", {{"mode", "edge"}}), {floats({0}, {}), longs({2}, {1, 0})}, "nothing to pad it with");
  expect_refused(node_of("Pad"), {x, longs({4}, {9.2e18, 0, 9.2e18, 0})}, "pads");
  // The dim of the output is 976; the first element's source is 2^63 away.
  const double far = 9223372036854775808.0;
  expect_refused(node_of("Pad"), {floats({2000}, spread(2000, 0, 1)), longs({2}, {-far, far - 1024})}, "pads -9223");
}

TEST(Constants, ShapesAndValues) {
  expect_op(node_of("Shape"), {floats({2, 3, 4}, iota(24))}, {longs({3}, {2, 3, 4})});
  expect_op(node_of("Shape", {{"start", std::int64_t{-2}}, {"end", std::int64_t{-1}}}), {floats({2, 3, 4}, iota(24))},
            {longs({1}, {3})});
  expect_op(node_of("Shape", {{"start", std::int64_t{2}}, {"end", std::int64_t{1}}}), {floats({2}, iota(2))},
            {longs({0}, {})});
  expect_op(node_of("Size"), {floats({2, 3, 4}, iota(24))}, {longs({}, {24})});
  expect_op(node_of("Constant", {{"value_ints", Ints{3, 4}}}), {}, {longs({2}, {3, 4})});
  expect_op(node_of("Constant", {{"value_float", 2.5}}), {}, {floats({}, {2.5})});
  expect_op(node_of("Constant", {{"value", tensor(DataType::f16, {1, 2}, {1, 2})}}), {},
            {tensor(DataType::f16, {1, 2}, {1, 2})});
  expect_refused(node_of("Constant"), {}, "has no value");
  expect_op(node_of("ConstantOfShape", {{"value", tensor(DataType::s32, {1}, {7})}}), {longs({2}, {1, 2})},
            {tensor(DataType::s32, {1, 2}, {7, 7})});
  expect_op(node_of("ConstantOfShape"), {longs({0}, {})}, {floats({}, {0})});
  expect_refused(node_of("ConstantOfShape"), {longs({1}, {-1})}, "negative dim");
  expect_refused(node_of("ConstantOfShape"), {longs({3}, {1e9, 1e9, 1e9})}, "overflow");
  expect_op(node_of("EyeLike", {{"k", std::int64_t{1}}, {"dtype", std::int64_t{1}}}),
            {tensor(DataType::s32, {2, 3}, iota(6))}, {floats({2, 3}, {0, 1, 0, 0, 0, 1})});
  expect_op(node_of("EyeLike", {{"k", std::int64_t{-5}}}), {floats({2, 2}, iota(4))}, {floats({2, 2}, {0, 0, 0, 0})});
}

// Channels of a pixel are moved together where they lie side by side.
TEST(Movement, PadOfMaps) {
  constexpr std::int64_t kHeight = 4, kWidth = 6, kTop = 1, kLeft = 2, kBottom = 2, kRight = 3;
  const std::vector<std::pair<const char*, std::int64_t (*)(std::int64_t, std::int64_t)>> modes = {
      {"constant", [](std::int64_t i, std::int64_t size) -> std::int64_t { return i < 0 || i >= size ? -1 : i; }},
      {"edge", [](std::int64_t i, std::int64_t size) { return std::clamp<std::int64_t>(i, 0, size - 1); }},
      {"reflect", [](std::int64_t i, std::int64_t size) { return i < 0       ? -i
                                                                 : i >= size ? 2 * size - 2 - i
                                                                             : i; }}};
  for (const auto& [mode, source] : modes) {
    for (const DataType type : {DataType::u8, DataType::bf16, DataType::f32}) {
      for (const std::int64_t channels : {1, 3, 16, 200}) {
        const std::vector<double> values = iota(static_cast<int>(channels * kHeight * kWidth));
        std::vector<double> kept, want;
        for (const double value : values) kept.push_back(std::fmod(value, 200));
        for (std::int64_t c = 0; c < channels; ++c) {
          for (std::int64_t h = -kTop; h < kHeight + kBottom; ++h) {
            for (std::int64_t w = -kLeft; w < kWidth + kRight; ++w) {
              const std::int64_t row = source(h, kHeight), column = source(w, kWidth);
              want.push_back(row < 0 || column < 0 ? 7 : kept[(c * kHeight + row) * kWidth + column]);
            }
          }
        }
        expect_op(node_of("Pad", {{"mode", mode}}),
                  {tensor(type, {1, channels, kHeight, kWidth}, kept),
                   longs({8}, {0, 0, kTop, kLeft, 0, 0, kBottom, kRight}), tensor(type, {}, {7})},
                  {tensor(type, {1, channels, kTop + kHeight + kBottom, kLeft + kWidth + kRight}, want)});
      }
    }
  }
}

TEST(Movement, CenterCropPad) {
  expect_op(node_of("CenterCropPad"), {floats({1, 5}, iota(5)), longs({2}, {1, 2})}, {floats({1, 2}, {1, 2})});
  expect_op(node_of("CenterCropPad"), {floats({1, 2}, {1, 2}), longs({2}, {2, 5})},
            {floats({2, 5}, {0, 1, 2, 0, 0, 0, 0, 0, 0, 0})});
  expect_op(node_of("CenterCropPad", {{"axes", Ints{-1, 0}}}), {floats({4, 1, 1}, iota(4)), longs({2}, {2, 1})},
            {floats({1, 1, 2}, {1, 0})});
  expect_op(node_of("CenterCropPad", {{"axes", Ints{2, 3}}}),
            {tensor(DataType::u8, {1, 2, 2, 3}, iota(12, 1)), longs({2}, {4, 1})},
            {tensor(DataType::u8, {1, 2, 4, 1}, {0, 2, 5, 0, 0, 8, 11, 0})});
  expect_op(node_of("CenterCropPad"), {floats({2}, {1, 2}), longs({1}, {0})}, {floats({0}, {})});
  expect_refused(node_of("CenterCropPad"), {floats({2}, {1, 2}), longs({1}, {-1})}, "negative dim: -1");
  expect_refused(node_of("CenterCropPad"), {floats({2}, {1, 2}), longs({2}, {1, 1})}, "2 entries for 1 axes");
  expect_refused(node_of("CenterCropPad", {{"axes", Ints{1}}}), {floats({2}, {1, 2}), longs({1}, {1})}, "axes[0]=1");
  expect_refused(node_of("CenterCropPad"), {floats({1, 1}, {1}), longs({2}, {9e15, 9e15})}, "overflow");
}

// Rows of any length, which are moved 16 bytes at a time where they are short.
TEST(Movement, PadOfShortRows) {
  constexpr std::int64_t kBlocks = 5, kRows = 4, kBefore = 2, kAfter = 3;
  for (const std::string mode : {"constant", "edge", "reflect", "wrap"}) {
    for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::f64}) {
      for (std::int64_t columns = 4; columns < 40; ++columns) {
        SCOPED_TRACE(mode + " " + to_string(Dims{kBlocks, kRows, columns}));
        const auto from = spread(kBlocks * kRows * columns, 0, 100);
        // The row or column that index i behind the padding is of, -1: none.
        const auto source = [&](std::int64_t i, std::int64_t size) -> std::int64_t {
          if (mode == "edge") return std::clamp<std::int64_t>(i, 0, size - 1);
          if (mode == "wrap") return (i + size) % size;
          if (mode == "constant") return i < 0 || i >= size ? -1 : i;
          return i < 0 ? -i : i >= size ? 2 * size - 2 - i : i;
        };
        std::vector<double> to;
        for (std::int64_t b = 0; b < kBlocks; ++b) {
          for (std::int64_t r = -kBefore; r < kRows + kAfter; ++r) {
            for (std::int64_t c = -kBefore; c < columns + kAfter; ++c) {
              const std::int64_t row = source(r, kRows), column = source(c, columns);
              const bool inside = row >= 0 && column >= 0;
              to.push_back(inside ? from[static_cast<std::size_t>((b * kRows + row) * columns + column)] : 7);
            }
          }
        }
        expect_op(node_of("Pad", {{"mode", mode}}),
                  {tensor(type, {kBlocks, kRows, columns}, from), longs({6}, {0, kBefore, kBefore, 0, kAfter, kAfter}),
                   tensor(type, {}, {7})},
                  {tensor(type, {kBlocks, kRows + kBefore + kAfter, columns + kBefore + kAfter}, to)}, 1, 0);
      }
    }
  }
}

// Each element three times, and every third one, in either direction.
TEST(Movement, EachThriceAndEveryThird) {
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32}) {
    for (const std::int64_t columns : {5, 16, 21, 90}) {
      const auto from = spread(4 * columns, 0, 100);
      std::vector<double> to;
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t c = 0; c < 3 * columns; ++c)
          to.push_back(from[static_cast<std::size_t>(r * columns + c / 3)]);
      }
      const Attributes nearest{{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}};
      const HostTensor x = tensor(type, {1, 4, columns}, from), y = tensor(type, {1, 4, 3 * columns}, to);
      expect_op(node_of("Resize", nearest),
                {x, absent(), absent(), longs({3}, {1, 4, static_cast<double>(3 * columns)})}, {y}, 0, 0);
      expect_op(node_of("Resize", nearest), {y, absent(), absent(), longs({3}, {1, 4, static_cast<double>(columns)})},
                {x}, 0, 0);
    }
  }
}

}  // namespace
}  // namespace convoy::ops
