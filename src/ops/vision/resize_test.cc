// Resize, Upsample, DepthToSpace, SpaceToDepth: values from the operator specification's examples.
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

std::vector<double> ramp(int count) {
  std::vector<double> values(count);
  for (int i = 0; i < count; ++i) values[i] = i + 1;
  return values;
}

HostTensor scales(const std::vector<double>& values) {
  return floats({static_cast<std::int64_t>(values.size())}, values);
}

TEST(Resize, Nearest) {
  const HostTensor x = floats({1, 1, 2, 2}, ramp(4));
  const std::vector<double> tripled{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4};
  expect_op(node_of("Resize"), {x, absent(), scales({1, 1, 2, 3})}, {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Resize"), {x, absent(), absent(), longs({4}, {1, 1, 4, 6})}, {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Resize", {}, 11), {x, floats({0}, {}), floats({0}, {}), longs({4}, {1, 1, 4, 6})},
            {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Upsample", {{"scales", std::vector<double>{1, 1, 2, 3}}}, 7), {x},
            {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Upsample", {}, 9), {x, scales({1, 1, 2, 3})}, {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Upsample", {{"height_scale", 2.0}, {"width_scale", 3.0}}, 6), {x},
            {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Resize", {}, 10), {x, scales({1, 1, 2, 3})}, {floats({1, 1, 4, 6}, tripled)});
  expect_op(node_of("Resize"), {floats({1, 1, 2, 4}, ramp(8)), absent(), scales({1, 1, 0.6, 0.6})},
            {floats({1, 1, 1, 2}, {1, 3})});
  expect_op(node_of("Resize", {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "ceil"}}),
            {floats({3}, ramp(3)), absent(), absent(), longs({1}, {6})}, {floats({6}, {1, 2, 2, 3, 3, 3})});
  expect_op(node_of("Resize", {{"axes", Ints{-1}}, {"keep_aspect_ratio_policy", "not_larger"}}),
            {tensor(DataType::u8, {2, 2}, ramp(4)), absent(), absent(), longs({1}, {4})},
            {tensor(DataType::u8, {2, 4}, {1, 1, 2, 2, 3, 3, 4, 4})});
  expect_op(node_of("Resize", {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", "not_smaller"}}),
            {x, absent(), absent(), longs({2}, {2, 4})},
            {floats({1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4})});
}

// Rows of doubled and fourfold neighbours have loops of their own; others go by runs of equal steps.
// With channels side by side, too: few of a pixel, or more than 64 bytes.
TEST(Resize, NearestOfWideRows) {
  const auto expect_repeated = [](DataType type, std::int64_t channels, std::int64_t width, std::int64_t times) {
    const Dims dims = {2, channels, 3, width}, larger = {2, channels, 3 * times, width * times};
    const std::vector<double> values = spread(6 * channels * width, 0, 200);
    std::vector<double> want;
    for (std::int64_t row = 0; row < 6 * channels * times; ++row) {
      for (std::int64_t i = 0; i < width * times; ++i) want.push_back(values[row / times * width + i / times]);
    }
    const auto by = static_cast<double>(times);
    expect_op(node_of("Resize"), {tensor(type, dims, values), absent(), scales({1, 1, by, by})},
              {tensor(type, larger, want)}, 0, 0);
  };
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::f64}) {
    for (const std::int64_t times : {2, 3, 4, 8}) {
      for (const std::int64_t width : {1, 5, 32, 67}) expect_repeated(type, 3, width, times);
      for (const std::int64_t channels : {2, 16, 33, 130}) expect_repeated(type, channels, 5, times);
    }
  }
}

TEST(Resize, Linear) {
  const HostTensor x = floats({1, 1, 2, 2}, ramp(4));
  expect_op(node_of("Resize", {{"mode", "linear"}}), {x, absent(), scales({1, 1, 2, 2})},
            {floats({1, 1, 4, 4}, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4})});
  expect_op(node_of("Resize", {{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}}),
            {x, absent(), scales({1, 1, 2, 2})},
            {floats({1, 1, 4, 4}, {1, 4 / 3., 5 / 3., 2, 5 / 3., 2, 7 / 3., 8 / 3., 7 / 3., 8 / 3., 3, 10 / 3., 3,
                                   10 / 3., 11 / 3., 4})});
  expect_op(node_of("Resize", {{"mode", "linear"}}),
            {floats({1, 1, 2, 4}, ramp(8)), absent(), scales({1, 1, 0.6, 0.6})},
            {floats({1, 1, 1, 2}, {2.6666665, 4.3333331})});
  expect_op(node_of("Resize", {{"mode", "linear"}, {"coordinate_transformation_mode", "pytorch_half_pixel"}}),
            {floats({1, 1, 4, 4}, ramp(16)), absent(), absent(), longs({4}, {1, 1, 3, 1})},
            {floats({1, 1, 3, 1}, {1.6666666, 7, 12.333333})});
  expect_op(node_of("Resize", {{"mode", "linear"}, {"coordinate_transformation_mode", "half_pixel_symmetric"}}),
            {floats({1, 1, 1, 4}, ramp(4)), absent(), scales({1, 1, 1, 0.6})},
            {floats({1, 1, 1, 2}, {1.6666667, 3.3333333})});
  expect_op(node_of("Resize", {{"mode", "linear"}, {"antialias", std::int64_t{1}}}),
            {floats({1, 1, 4, 4}, ramp(16)), absent(), scales({1, 1, 0.6, 0.6})},
            {floats({1, 1, 2, 2}, {2.875, 4.5, 9.375, 11})});
  expect_op(node_of("Resize", {{"mode", "linear"},
                               {"coordinate_transformation_mode", "tf_crop_and_resize"},
                               {"extrapolation_value", 10.0}}),
            {floats({1, 1, 4, 4}, ramp(16)), floats({8}, {0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7}), absent(),
             longs({4}, {1, 1, 3, 3})},
            {floats({1, 1, 3, 3}, {7.6000004, 10, 10, 12.400001, 10, 10, 10, 10, 10})}, 1e-5);
  // Integers are cut off; every type takes the same path.
  expect_op(node_of("Resize", {{"mode", "linear"}}), {tensor(DataType::u8, {2}, {1, 2}), absent(), scales({2})},
            {tensor(DataType::u8, {4}, {1, 1, 1, 2})});
  expect_op(node_of("Resize", {{"mode", "linear"}}), {tensor(DataType::f64, {2}, {1, 2}), absent(), scales({2})},
            {tensor(DataType::f64, {4}, {1, 1.25, 1.75, 2})});
  expect_op(node_of("Resize", {{"mode", "linear"}}), {tensor(DataType::f16, {2}, {1, 2}), absent(), scales({1})},
            {tensor(DataType::f16, {2}, {1, 2})});
  expect_op(node_of("Upsample", {{"mode", "linear"}}, 9), {floats({1, 1, 2}, {1, 3}), scales({1, 1, 2})},
            {floats({1, 1, 4}, {1, 2, 3, 3})});
}

TEST(Resize, Cubic) {
  const HostTensor x = floats({1, 1, 4, 4}, ramp(16));
  expect_op(node_of("Resize", {{"mode", "cubic"}}), {x, absent(), scales({1, 1, 0.8, 0.8})},
            {floats({1, 1, 3, 3}, {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391,
                                   13.2265625, 14.52783203})},
            1e-5);
  expect_op(node_of("Resize", {{"mode", "cubic"}, {"exclude_outside", std::int64_t{1}}, {"cubic_coeff_a", -0.5}}),
            {x, absent(), scales({1, 1, 0.8, 0.8})},
            {floats({1, 1, 3, 3}, {1.36812675, 2.6695014, 4.0133367, 6.57362535, 7.875, 9.2188353, 11.94896657,
                                   13.25034122, 14.59417652})},
            1e-5);
  expect_op(node_of("Resize", {{"mode", "cubic"}, {"antialias", std::int64_t{1}}}),
            {x, absent(), scales({1, 1, 0.6, 0.6})},
            {floats({1, 1, 2, 2}, {2.5180721, 4.2858863, 9.589329, 11.357142})}, 1e-5);
}

TEST(Resize, Refusals) {
  const HostTensor x = floats({1, 1, 2, 2}, ramp(4));
  expect_refused(node_of("Resize"), {x}, "must be given");
  expect_refused(node_of("Resize"), {x, absent(), scales({1, 1})}, "scales has 2 entries for 4 axes");
  expect_refused(node_of("Resize"), {x, absent(), scales({1, 1, -1, 1})}, "scales[2]=-1");
  expect_refused(node_of("Resize"), {x, absent(), scales({1, 1, NAN, 1})}, "scales[2]");
  expect_refused(node_of("Resize"), {x, absent(), scales({1, 1e12, 1e12, 1})}, "overflow");
  expect_refused(node_of("Resize"), {x, absent(), absent(), longs({4}, {1, 1, -2, 2})}, "sizes[2]=-2");
  expect_refused(node_of("Resize", {{"mode", "area"}}), {x, absent(), scales({1, 1, 2, 2})}, "mode='area'");
  expect_refused(node_of("Resize", {{"mode", "linear"}}),
                 {tensor(DataType::boolean, {2}, {1, 0}), absent(), scales({2})}, "type bool");
}

TEST(DepthToSpace, BothModes) {
  std::vector<double> values(24);
  for (int i = 0; i < 24; ++i) values[i] = i;
  const HostTensor x = floats({1, 8, 1, 3}, values);
  const HostTensor dcr =
      floats({1, 2, 2, 6}, {0, 6, 1, 7, 2, 8, 12, 18, 13, 19, 14, 20, 3, 9, 4, 10, 5, 11, 15, 21, 16, 22, 17, 23});
  expect_op(node_of("DepthToSpace", {{"blocksize", std::int64_t{2}}}), {x}, {dcr});
  expect_op(node_of("SpaceToDepth", {{"blocksize", std::int64_t{2}}}), {dcr}, {x});
  expect_op(
      node_of("DepthToSpace", {{"blocksize", std::int64_t{2}}, {"mode", "CRD"}}), {x},
      {floats({1, 2, 2, 6}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 12, 15, 13, 16, 14, 17, 18, 21, 19, 22, 20, 23})});
  expect_op(
      node_of("SpaceToDepth", {{"blocksize", std::int64_t{2}}, {"mode", "CRD"}}, 28),
      {floats({1, 2, 2, 6}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 12, 15, 13, 16, 14, 17, 18, 21, 19, 22, 20, 23})},
      {x});
  expect_refused(node_of("DepthToSpace", {{"blocksize", std::int64_t{3}}}), {x}, "blocksize=3 does not divide");
  expect_refused(node_of("SpaceToDepth"), {x}, "blocksize=0");
}

}  // namespace
}  // namespace convoy::ops
