// GridSample, AffineGrid, Col2Im, RoiAlign, MaxRoiPool, DeformConv: values from the operator specification's examples
// and by hand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(GridSample, Modes) {
  const HostTensor x = floats({1, 1, 3, 2}, {0, 1, 2, 3, 4, 5});
  const HostTensor grid =
      floats({1, 2, 4, 2}, {-10, -10, -5, -5, -0.2, -0.2, 10, 10, 10, 10, -0.2, -0.2, 5, 5, 10, 10});
  const auto node = [](const char* mode, const char* padding) {
    return node_of("GridSample", {{"mode", mode}, {"padding_mode", padding}});
  };
  expect_op(node("linear", "zeros"), {x, grid}, {floats({1, 1, 2, 4}, {0, 0, 1.7, 0, 0, 1.7, 0, 0})});
  expect_op(node("linear", "border"), {x, grid}, {floats({1, 1, 2, 4}, {0, 0, 1.7, 5, 5, 1.7, 5, 5})});
  expect_op(node("linear", "reflection"), {x, grid}, {floats({1, 1, 2, 4}, {2.5, 0, 1.7, 2.5, 2.5, 1.7, 5, 2.5})});
  // 2D modes of opset 16 have other names; nearest takes ties to even.
  expect_op(node_of("GridSample", {{"mode", "bilinear"}, {"align_corners", std::int64_t{1}}}, 16),
            {x, floats({1, 1, 2, 2}, {0, 0, 1, -0.5})}, {floats({1, 1, 1, 2}, {2.5, 2})});
  expect_op(node("nearest", "zeros"), {x, floats({1, 1, 3, 2}, {-0.9, -0.9, 0.1, 0.1, 3, NAN})},
            {floats({1, 1, 1, 3}, {0, 3, 0})});
  // On the pixels themselves every mode gives them.
  expect_op(node_of("GridSample", {{"mode", "cubic"}, {"align_corners", std::int64_t{1}}, {"padding_mode", "border"}}),
            {x, floats({1, 1, 3, 2}, {-1, -1, 1, 0, -1, 1})}, {floats({1, 1, 1, 3}, {0, 3, 4})});
  // 3D: halfway between all eight.
  expect_op(node("linear", "zeros"),
            {floats({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({1, 1, 1, 1, 3}, {0, 0, 0})},
            {floats({1, 1, 1, 1, 1}, {4.5})});
  expect_refused(node("linear", "none"), {x, grid}, "padding_mode='none'");
  expect_refused(node("linear", "zeros"), {x, floats({1, 1, 1, 3}, {0, 0, 0})}, "do not fit");
}

// Points between four pixels, on one, on the line between two, beside the edge and outside: more than are computed at a
// time. What has no weight isn't read, as it may be infinite.
TEST(GridSample, LinearIsAsDefined) {
  constexpr std::int64_t kHeight = 7, kWidth = 9, kRows = 33, kColumns = 37;
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t align : {0, 1}) {
    std::vector<double> values = spread(2 * 3 * kHeight * kWidth, -2, 2), grid, expected;
    for (std::size_t plane = 0; plane < 6; ++plane) values[plane * kHeight * kWidth + 3 * kWidth + 5] = inf;
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t p = 0; p < kRows * kColumns; ++p) {
        // Eighths of a pixel, from one before the first to one behind the last.
        const double at[] = {static_cast<double>(p * 7 % 81) / 8 - 1, static_cast<double>((p * 5 + n) % 65) / 8 - 1};
        const double size[] = {kWidth, kHeight};
        for (int d = 0; d < 2; ++d) {
          grid.push_back(align != 0 ? at[d] / (size[d] - 1) * 2 - 1 : (at[d] * 2 + 1) / size[d] - 1);
        }
      }
    }
    const HostTensor rounded = floats({2, kRows, kColumns, 2}, grid);
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t p = 0; p < kRows * kColumns; ++p) {
          double at[2], size[] = {kWidth, kHeight}, sum = 0;
          for (int d = 0; d < 2; ++d) {
            const double v = rounded.at((n * kRows * kColumns + p) * 2 + d);
            at[d] = align != 0 ? (v + 1) / 2 * (size[d] - 1) : ((v + 1) * size[d] - 1) / 2;
          }
          for (std::int64_t h = 0; h < kHeight; ++h) {
            for (std::int64_t w = 0; w < kWidth; ++w) {
              const double weight = std::max(0.0, 1 - std::abs(at[0] - static_cast<double>(w))) *
                                    std::max(0.0, 1 - std::abs(at[1] - static_cast<double>(h)));
              if (weight != 0) sum += weight * values[((n * 3 + c) * kHeight + h) * kWidth + w];
            }
          }
          expected.push_back(sum);
        }
      }
    }
    expect_op(node_of("GridSample", {{"align_corners", align}}), {floats({2, 3, kHeight, kWidth}, values), rounded},
              {floats({2, 3, kRows, kColumns}, expected)}, 1e-6);
  }
}

TEST(AffineGrid, TwoAndThreeDims) {
  expect_op(node_of("AffineGrid"), {floats({1, 2, 3}, {1, 0, 0.5, 0, 2, 0}), longs({4}, {1, 1, 2, 2})},
            {floats({1, 2, 2, 2}, {0, -1, 1, -1, 0, 1, 1, 1})});
  expect_op(node_of("AffineGrid", {{"align_corners", std::int64_t{1}}}),
            {floats({1, 3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}), longs({5}, {1, 1, 1, 2, 2})},
            {floats({1, 1, 2, 2, 3}, {-1, -1, 0, 1, -1, 0, -1, 1, 0, 1, 1, 0})});
  expect_refused(node_of("AffineGrid"), {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), longs({3}, {1, 1, 2})}, "do not fit");
  expect_refused(node_of("AffineGrid"), {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), longs({4}, {1, 1, -2, 2})}, "dims");
}

TEST(Col2Im, SumsBlocks) {
  expect_op(
      node_of("Col2Im"),
      {floats({1, 5, 5}, {1, 6, 11, 16, 21, 2, 7, 12, 17, 22, 3, 8, 13, 18, 23, 4, 9, 14, 19, 24, 5, 0, 15, 20, 25}),
       longs({2}, {5, 5}), longs({2}, {1, 5})},
      {floats({1, 1, 5, 5},
              {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25})});
  // Overlapping blocks with padding: counts of how often each pixel is covered.
  expect_op(node_of("Col2Im", {{"pads", Ints{1, 1, 1, 1}}}),
            {floats({1, 4, 9}, std::vector<double>(36, 1)), longs({2}, {2, 2}), longs({2}, {2, 2})},
            {floats({1, 1, 2, 2}, {4, 4, 4, 4})});
  expect_op(node_of("Col2Im", {{"strides", Ints{2}}, {"dilations", Ints{2}}}),
            {floats({1, 2, 2}, {1, 2, 10, 20}), longs({1}, {5}), longs({1}, {2})},
            {floats({1, 1, 5}, {1, 0, 12, 0, 20})});
  expect_refused(node_of("Col2Im"), {floats({1, 2, 2}, {1, 2, 3, 4}), longs({1}, {5}), longs({1}, {2})}, "4 columns");
  expect_refused(node_of("Col2Im"), {floats({1, 2, 2}, {1, 2, 3, 4}), longs({1}, {1}), longs({1}, {2})},
                 "do not fit image");
}

// On a plane that rises evenly a bin's mean is its centre's value, by however many samples.
TEST(RoiAlign, AnyNumberOfSamples) {
  std::vector<double> plane, expected;
  for (int c = 0; c < 2; ++c) {
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 12; ++x) plane.push_back((c + 1) * (10 * y + x));
    }
  }
  for (int roi = 0; roi < 2; ++roi) {
    for (int c = 0; c < 2; ++c) {
      for (const double y : {1.0 + roi, 3.0 + roi}) {
        for (const double x : {2.0, 4.0, 6.0}) expected.push_back((c + 1) * (10 * y + x));
      }
    }
  }
  const HostTensor rois = floats({2, 4}, {1.5, 0.5, 7.5, 4.5, 1.5, 1.5, 7.5, 5.5});
  for (const std::int64_t samples : {1, 2, 40}) {
    const std::map<std::string, Attribute> attributes{
        {"output_height", std::int64_t{2}}, {"output_width", std::int64_t{3}}, {"sampling_ratio", samples}};
    expect_op(node_of("RoiAlign", attributes, 16), {floats({1, 2, 10, 12}, plane), rois, longs({2}, {0, 0})},
              {floats({2, 2, 2, 3}, expected)});
  }
}

// ONNX Runtime 1.31 gives the same.
TEST(MaxRoiPool, LargestOfEachBin) {
  std::vector<double> values(2 * 4 * 4);
  for (int i = 0; i < 32; ++i) values[i] = i < 16 ? i : -i;
  const HostTensor x = floats({2, 1, 4, 4}, values);
  const std::map<std::string, Attribute> attributes{{"pooled_shape", std::vector<std::int64_t>{2, 2}},
                                                    {"spatial_scale", 0.5}};
  // Of edges of 1.0 and 2.5 pixels, which is 3; of one behind the map; of the second image.
  const HostTensor rois = floats({3, 5}, {0, 2, 2, 5, 5, 0, 20, 20, 24, 24, 1, 0, 0, 6, 2});
  expect_op(node_of("MaxRoiPool", attributes, 1), {x, rois},
            {floats({3, 1, 2, 2}, {10, 11, 14, 15, 0, 0, 0, 0, -16, -18, -20, -22})});
  expect_refused(node_of("MaxRoiPool", attributes, 1), {x, floats({1, 5}, {2, 0, 0, 1, 1})}, "names the image 2");
  expect_refused(node_of("MaxRoiPool", attributes, 1), {x, floats({1, 5}, {0, 0, NAN, 1, 1})}, "not finite");
  expect_refused(node_of("MaxRoiPool", {}, 1), {x, rois}, "pooled_shape=[]");
  for (const double scale : {1e30, std::numeric_limits<double>::infinity(), static_cast<double>(NAN)}) {
    expect_refused(node_of("MaxRoiPool", {{"pooled_shape", Ints{2, 2}}, {"spatial_scale", scale}}, 1), {x, rois},
                   "is far too large");
  }
}

TEST(RoiAlign, AverageAndMaximum) {
  std::vector<double> values(16);
  for (int i = 0; i < 16; ++i) values[i] = i;
  const HostTensor x = floats({1, 1, 4, 4}, values);
  const HostTensor roi = floats({1, 4}, {0, 0, 4, 4});
  std::map<std::string, Attribute> attributes{
      {"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}, {"sampling_ratio", std::int64_t{2}}};
  expect_op(node_of("RoiAlign", attributes), {x, roi, longs({1}, {0})}, {floats({1, 1, 2, 2}, {2.5, 4.5, 10.5, 12.5})});
  attributes["mode"] = "max";
  expect_op(node_of("RoiAlign", attributes), {x, roi, longs({1}, {0})}, {floats({1, 1, 2, 2}, {5, 7, 13, 15})});
  attributes["coordinate_transformation_mode"] = "half";
  expect_refused(node_of("RoiAlign", attributes), {x, roi, longs({1}, {0})}, "coordinate_transformation_mode='half'");
  expect_refused(node_of("RoiAlign"), {x, roi, longs({1}, {1})}, "input 2 (batch_indices) has 1 at 0");
  expect_refused(node_of("RoiAlign"), {x, floats({1, 4}, {0, 0, 1e20, 4}), longs({1}, {0})}, "input 1 (rois)");
  expect_refused(node_of("RoiAlign"), {x, floats({1, 4}, {0, NAN, 1, 4}), longs({1}, {0})}, "input 1 (rois)");
}

TEST(DeformConv, SpecificationExamples) {
  const HostTensor x = floats({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor w = floats({1, 1, 2, 2}, {1, 1, 1, 1});
  std::vector<double> offsets(8 * 4, 0);
  offsets[0] = 0.5;           // y of the first tap at the first output
  offsets[5 * 4 + 3] = -0.1;  // x of the third tap at the last output
  const std::map<std::string, Attribute> plain{{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}};
  expect_op(node_of("DeformConv", plain), {x, w, floats({1, 8, 2, 2}, offsets)},
            {floats({1, 1, 2, 2}, {9.5, 12, 20, 23.9})});
  std::vector<double> mask(16, 1);
  mask[2 * 4] = 0.2;
  mask[3 * 4 + 3] = 0.1;
  expect_op(node_of("DeformConv", plain),
            {x, w, floats({1, 8, 2, 2}, offsets), floats({1}, {1}), floats({1, 4, 2, 2}, mask)},
            {floats({1, 1, 2, 2}, {8.1, 13, 21, 17.7})});
  expect_refused(node_of("DeformConv", plain), {x, w, floats({1, 4, 2, 2}, mask)}, "input 2 has dims [1x4x2x2]");
  expect_refused(node_of("DeformConv", {{"group", std::int64_t{2}}}), {x, w, floats({1, 8, 2, 2}, offsets)}, "group=2");
}

}  // namespace
}  // namespace convoy::ops
