// Operators on 8-bit tensors, computed by hand: v = (q - zero) * scale.
#include <algorithm>
#include <cmath>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

HostTensor u8(Dims dims, const std::vector<double>& values) { return tensor(DataType::u8, std::move(dims), values); }
HostTensor s8(Dims dims, const std::vector<double>& values) { return tensor(DataType::s8, std::move(dims), values); }
HostTensor scale(double value) { return floats({}, {value}); }

NodeDesc microsoft(const std::string& op, std::map<std::string, Attribute> attributes = {}) {
  NodeDesc node = node_of(op, std::move(attributes), 1);
  node.domain = "com.microsoft";
  return node;
}

TEST(QLinear, AddAndMulBroadcast) {
  // a = {-0.5, 0}, {0.5, 1}, {1.5, 2}; b = {-4, 6}
  const HostTensor a = u8({3, 2}, {9, 10, 11, 12, 13, 14}), b = u8({2}, {1, 6});
  expect_op(microsoft("QLinearAdd"), {a, scale(0.5), u8({}, {10}), b, scale(2), u8({}, {3}), scale(1), u8({}, {100})},
            {u8({3, 2}, {96, 106, 96, 107, 98, 108})});  // -4.5, -3.5 and -2.5 round to even
  // Products {2, 0, -2, 6, -6, 12}; without zero points of the output, negative ones saturate.
  expect_op(microsoft("QLinearMul"), {a, scale(0.5), u8({}, {10}), b, scale(2), u8({}, {3}), scale(4)},
            {u8({3, 2}, {0, 0, 0, 2, 0, 3})});
  expect_op(microsoft("QLinearAdd"),
            {s8({2}, {-128, 127}), scale(1), absent(), s8({2}, {-1, 1}), scale(1), absent(), scale(1)},
            {s8({2}, {-128, 127})});
  const HostTensor image = u8({1, 2, 1, 2}, {0, 50, 100, 150}), channel = u8({1, 2, 1, 1}, {1, 2});
  expect_op(microsoft("QLinearAdd"), {image, scale(1), absent(), channel, scale(10), absent(), scale(1)},
            {u8({1, 2, 1, 2}, {10, 60, 120, 170})});
}

TEST(QLinear, BinaryErrors) {
  const HostTensor a = u8({2}, {1, 2});
  expect_refused(microsoft("QLinearAdd"), {a, scale(1), s8({}, {1}), a, scale(1), absent(), scale(1)}, "input 2");
  expect_refused(microsoft("QLinearAdd"), {a, floats({2}, {1, 1}), absent(), a, scale(1), absent(), scale(1)},
                 "one scale and zero point a tensor");
  expect_refused(microsoft("QLinearAdd"), {a, scale(1), absent(), a, scale(1)}, "input 6 (a scale) is absent");
  expect_refused(microsoft("QLinearMul"), {a, scale(1), absent(), u8({3}, {1, 1, 1}), scale(1), absent(), scale(1)},
                 "QLinearMul");
}

TEST(QLinear, FunctionsAreTables) {
  expect_op(microsoft("QLinearLeakyRelu", {{"alpha", 0.25}}),
            {u8({4}, {0, 6, 10, 30}), scale(0.5), u8({}, {10}), scale(0.25), u8({}, {5})}, {u8({4}, {0, 3, 5, 45})});
  expect_op(microsoft("QLinearSigmoid"),
            {s8({3}, {-128, 0, 127}), scale(1), absent(), scale(1.0 / 256), s8({}, {-128})}, {s8({3}, {-128, 0, 127})});
  std::vector<double> squares;
  for (int i = 0; i < 256; ++i) squares.push_back(i * i % 256);
  NodeDesc lookup = node_of("Lookup");
  lookup.domain = "convoy";
  expect_op(lookup, {s8({3}, {2, -1, -128}), u8({256}, squares)}, {u8({3}, {4, 255 * 255 % 256, 0})});
  expect_refused(lookup, {s8({3}, {2, -1, -128}), u8({2}, {1, 2})}, "it must have [256]");
}

TEST(QLinear, Concat) {
  // 1, 2 | 2, 4 with scale 2 and zero point 1 | all to scale 0.5, zero point 3
  expect_op(
      microsoft("QLinearConcat", {{"axis", std::int64_t{1}}}),
      {scale(0.5), u8({}, {3}), u8({1, 2}, {1, 2}), scale(1), u8({}, {0}), u8({1, 2}, {2, 3}), scale(2), u8({}, {1})},
      {u8({1, 4}, {5, 7, 7, 11})});
  expect_op(microsoft("QLinearConcat", {{"axis", std::int64_t{1}}}),
            {scale(1), u8({}, {0}), u8({1, 1, 1, 2}, {1, 2}), scale(1), u8({}, {0}), u8({1, 2, 1, 2}, {3, 4, 5, 6}),
             scale(1), u8({}, {0})},
            {u8({1, 3, 1, 2}, {1, 2, 3, 4, 5, 6})});
  expect_refused(microsoft("QLinearConcat", {{"axis", std::int64_t{2}}}),
                 {scale(1), u8({}, {0}), u8({1, 2}, {1, 2}), scale(1), u8({}, {0})}, "axis=2");
  expect_refused(
      microsoft("QLinearConcat", {{"axis", std::int64_t{0}}}),
      {scale(1), u8({}, {0}), u8({1, 2}, {1, 2}), scale(1), u8({}, {0}), u8({1, 3}, {1, 2, 3}), scale(1), u8({}, {0})},
      "input 5 has dims");
}

TEST(QLinear, AveragePools) {
  const HostTensor x = u8({1, 2, 2, 2}, {10, 12, 14, 17, 20, 10, 10, 10});
  // Means 3.25 and 2.5 of v = q - 10, by 0.5.
  const std::vector<HostTensor> inputs = {x, scale(1), u8({}, {10}), scale(0.5), u8({}, {1})};
  expect_op(microsoft("QLinearGlobalAveragePool"), inputs, {u8({1, 2, 1, 1}, {7, 6})});  // 6.5 rounds to 6, then 1
  expect_op(microsoft("QLinearGlobalAveragePool", {{"channels_last", std::int64_t{1}}}), inputs,
            {u8({1, 1, 1, 2}, {8, 5})});  // means of 0 4 10 0 and 2 7 0 0: 3.5 and 2.25, twice, 4.5 to 4
  const Attribute kernel = std::vector<std::int64_t>{2, 2}, pads = std::vector<std::int64_t>{1, 1, 0, 0};
  // Windows of one corner: alone 0, with its padding 0; the last is whole.
  expect_op(microsoft("QLinearAveragePool", {{"kernel_shape", kernel}, {"pads", pads}}), inputs,
            {u8({1, 2, 2, 2}, {1, 3, 5, 7, 21, 11, 11, 6})});
  expect_op(microsoft("QLinearAveragePool",
                      {{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", std::int64_t{1}}}),
            inputs, {u8({1, 2, 2, 2}, {1, 2, 3, 7, 6, 6, 6, 6})});
  expect_refused(microsoft("QLinearGlobalAveragePool"), {u8({2, 2}, {1, 1, 1, 1}), scale(1), absent(), scale(1)},
                 "1 to 3");
}

TEST(QLinear, Softmax) {
  // v = 0 and ln 3: 1/4 and 3/4.
  const HostTensor x = u8({1, 2, 2}, {5, 6, 6, 5});
  const std::vector<HostTensor> inputs = {x, scale(1.0986123), u8({}, {5}), scale(1.0 / 256), u8({}, {0})};
  expect_op(microsoft("QLinearSoftmax", {{"opset", std::int64_t{13}}}), inputs, {u8({1, 2, 2}, {64, 192, 192, 64})});
  expect_op(microsoft("QLinearSoftmax", {{"opset", std::int64_t{13}}, {"axis", std::int64_t{1}}}), inputs,
            {u8({1, 2, 2}, {64, 192, 192, 64})});
  expect_op(microsoft("QLinearSoftmax", {{"opset", std::int64_t{12}}, {"axis", std::int64_t{1}}}), inputs,
            {u8({1, 2, 2}, {32, 96, 96, 32})});
  expect_refused(microsoft("QLinearSoftmax", {{"opset", std::int64_t{13}}, {"axis", std::int64_t{3}}}), inputs,
                 "axis=3");
}

// Rows with vectors of results and some left over, of several largest values.
TEST(QLinear, SoftmaxOfRows) {
  constexpr int kRows = 5, kSize = 77;
  std::vector<double> x, y;
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int i = 0; i < kSize; ++i) x.push_back((row * 50 + i * 13) % 200 - 100);
    const auto from = x.end() - kSize;
    const double largest = *std::max_element(from, x.end());
    for (auto at = from; at != x.end(); ++at) sum += std::exp(0.05 * (*at - largest));
    for (auto at = from; at != x.end(); ++at)
      y.push_back(std::min(127.0, std::nearbyint(std::exp(0.05 * (*at - largest)) / sum * 2048) - 128));
  }
  expect_op(microsoft("QLinearSoftmax", {{"opset", std::int64_t{13}}}),
            {s8({kRows, kSize}, x), scale(0.05), s8({}, {3}), scale(1.0 / 2048), s8({}, {-128})},
            {s8({kRows, kSize}, y)});
}

TEST(QLinear, Gemm) {
  // a = {1, 2}, b = {{1, 2, 3}, {4, 5, 6}} by columns' scales 1, 2, 0.5: a . b = {9, 12, 15} before scaling.
  const HostTensor a = u8({1, 2}, {4, 5}), b = s8({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor scales = floats({3}, {1, 2, 0.5}), zeros = s8({3}, {0, 0, 0}),
                   c = tensor(DataType::s32, {3}, {1, 0, -1});
  expect_op(microsoft("QGemm"), {a, scale(0.5), u8({}, {3}), b, scales, zeros, c}, {floats({1, 3}, {5, 12, 3.5})});
  expect_op(microsoft("QGemm", {{"transB", std::int64_t{1}}}),
            {a, scale(0.5), u8({}, {3}), s8({3, 2}, {1, 4, 2, 5, 3, 6}), scales, zeros, c, scale(2), u8({}, {7})},
            {u8({1, 3}, {9, 13, 9})});  // 2.5 rounds to 2, 6, 1.75 to 2
  expect_op(microsoft("QGemm", {{"transA", std::int64_t{1}}, {"alpha", 2.0}}),
            {u8({2, 1}, {4, 5}), scale(0.5), u8({}, {3}), b, scale(1), s8({}, {1}), absent(), scale(1), u8({}, {0})},
            {u8({1, 3}, {6, 9, 12})});  // {1, 2} . (b - 1) = {6, 9, 12}
  expect_op(microsoft("QGemm", {{"alpha", 2.0}}), {a, scale(0.5), u8({}, {3}), b, scales, zeros, c},
            {floats({1, 3}, {10, 24, 7})});
  expect_refused(microsoft("QGemm"), {a, scale(0.5), u8({}, {3}), b, floats({2}, {1, 1}), zeros, c},
                 "1 or 3 are needed");
  expect_refused(microsoft("QGemm"), {a, scale(0.5), u8({}, {3}), s8({1, 3}, {1, 2, 3}), scales, zeros},
                 "2 columns meet 1 rows");
  expect_refused(microsoft("QGemm"), {a, scale(0.5), u8({}, {3}), b, scales, zeros, tensor(DataType::s32, {2}, {1, 0})},
                 "input 6 (C)");
}

}  // namespace
}  // namespace convoy::ops
