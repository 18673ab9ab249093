// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: values from the operator specification's examples.
#include <algorithm>
#include <cmath>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

HostTensor u8(Dims dims, const std::vector<double>& values) { return tensor(DataType::u8, std::move(dims), values); }

TEST(Quantize, ATensor) {
  expect_op(node_of("QuantizeLinear"), {floats({6}, {0, 2, 3, 1000, -254, -1000}), floats({}, {2}), u8({}, {128})},
            {u8({6}, {128, 129, 130, 255, 1, 0})});  // 3 / 2 rounds to even
  expect_op(node_of("QuantizeLinear"), {floats({3}, {0.5, 1.5, NAN}), floats({}, {1})}, {u8({3}, {0, 2, 0})});
  for (const DataType type : {DataType::s8, DataType::s16, DataType::u16}) {
    expect_op(node_of("QuantizeLinear"), {floats({3}, {-6, 4, 5}), floats({}, {2}), tensor(type, {}, {10})},
              {tensor(type, {3}, {7, 12, 12})});
  }
  expect_op(node_of("QuantizeLinear"), {floats({2}, {1e30, -1e30}), floats({}, {1}), tensor(DataType::u16, {}, {7})},
            {tensor(DataType::u16, {2}, {65535, 0})});
  expect_op(node_of("QuantizeLinear", {{"output_dtype", std::int64_t{3}}}), {floats({2}, {-3, 3}), floats({}, {1})},
            {tensor(DataType::s8, {2}, {-3, 3})});
  expect_op(node_of("DequantizeLinear"), {u8({4}, {0, 3, 128, 255}), floats({}, {2}), u8({}, {128})},
            {floats({4}, {-256, -250, 0, 254})});
  expect_op(node_of("DequantizeLinear"), {u8({2}, {3, 4}), floats({1}, {2}), u8({}, {1})}, {floats({2}, {4, 6})});
  expect_op(node_of("DequantizeLinear"), {tensor(DataType::s32, {2}, {-5, 1 << 30}), floats({}, {0.5})},
            {floats({2}, {-2.5, 1 << 29})});
}

// As long as vectors and a rest, with values outside of the type: what one element alone gives.
TEST(Quantize, Rows) {
  for (const DataType type : {DataType::s8, DataType::u8, DataType::s16, DataType::u16}) {
    SCOPED_TRACE(name_of(type));
    std::vector<double> x, back;
    for (int i = 0; i < 83; ++i) x.push_back((i * 37 % 83 - 41) * (i % 5 == 0 ? 1e4 : i % 5 == 1 ? 900.25 : 0.75));
    x[3] = NAN, x[4] = INFINITY, x[5] = -INFINITY, x[6] = 3e38, x[7] = -3e38;
    const double low = type == DataType::s8 ? -128 : type == DataType::s16 ? -32768 : 0;
    const double high = type == DataType::s8 ? 127 : type == DataType::u8 ? 255 : type == DataType::s16 ? 32767 : 65535;
    std::vector<double> y;
    for (const double value : x) {
      const double whole = std::nearbyint(static_cast<float>(value) / 0.5F) + 3;
      y.push_back(std::isnan(value) ? low : std::clamp(whole, low, high));
      back.push_back((y.back() - 3) * 0.5);
    }
    const HostTensor scale = floats({}, {0.5}), zero = tensor(type, {}, {3});
    expect_op(node_of("QuantizeLinear"), {floats({83}, x), scale, zero}, {tensor(type, {83}, y)});
    expect_op(node_of("DequantizeLinear"), {tensor(type, {83}, y), scale, zero}, {floats({83}, back)});
  }
}

TEST(Quantize, AnAxis) {
  const HostTensor x =
      floats({1, 3, 3, 2}, {-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44, 245, -485, -960, -270, -375, -470});
  const HostTensor y = u8({1, 3, 3, 2}, {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102});
  const HostTensor scale = floats({3}, {2, 4, 5}), zero = u8({3}, {84, 24, 196});
  expect_op(node_of("QuantizeLinear"), {x, scale, zero}, {y});
  expect_op(node_of("DequantizeLinear"), {y, scale, zero}, {x});
  expect_refused(node_of("QuantizeLinear"), {x, floats({2}, {1, 1})}, "axis 1 of x has 3");
  expect_refused(node_of("QuantizeLinear"), {x, scale, u8({}, {1})}, "they must be equal");
  expect_refused(node_of("DequantizeLinear"), {y, scale, tensor(DataType::s8, {3}, {1, 1, 1})}, "input 2 (zero point)");
  expect_refused(node_of("QuantizeLinear", {{"axis", std::int64_t{4}}}), {x, scale, zero}, "axis=4");
}

// Rows of a few elements, each with a scale of its own, are read several at a time.
TEST(Quantize, RowsOfAFewElements) {
  for (const std::int64_t size : {1, 2, 3, 4, 7, 16, 17}) {
    SCOPED_TRACE(size);
    constexpr std::int64_t kImages = 2, kRows = 150;
    std::vector<double> whole, real, scale, zero;
    for (std::int64_t row = 0; row < kRows; ++row) {
      scale.push_back(static_cast<double>(row % 5 + 1) / 4);
      zero.push_back(static_cast<double>(row % 7));
    }
    for (std::int64_t i = 0; i < kImages * kRows * size; ++i) {
      const auto row = static_cast<std::size_t>(i / size % kRows);
      whole.push_back(static_cast<double>(i * 31 % 256));
      real.push_back((whole.back() - zero[row]) * scale[row]);
    }
    const Dims dims = {kImages, kRows, size};
    const HostTensor bytes = tensor(DataType::u8, dims, whole), factors = floats({kRows}, scale);
    const HostTensor zeros = tensor(DataType::u8, {kRows}, zero);
    expect_op(node_of("DequantizeLinear"), {bytes, factors, zeros}, {floats(dims, real)});
    expect_op(node_of("QuantizeLinear"), {floats(dims, real), factors, zeros}, {bytes});
  }
}

// Rows of a few elements with a scale for each of these, more than are read at a time.
TEST(Quantize, AShortLastAxis) {
  for (const std::int64_t size : {1, 2, 3, 4, 7, 16, 17}) {
    SCOPED_TRACE(size);
    constexpr std::int64_t kRows = 700;
    std::vector<double> whole, real, scale, zero;
    for (std::int64_t i = 0; i < size; ++i) {
      scale.push_back(static_cast<double>(i % 5 + 1) / 4);
      zero.push_back(static_cast<double>(i % 7));
    }
    for (std::int64_t i = 0; i < kRows * size; ++i) {
      const auto column = static_cast<std::size_t>(i % size);
      whole.push_back(static_cast<double>(i * 31 % 256));
      real.push_back((whole.back() - zero[column]) * scale[column]);
    }
    const Dims dims = {kRows / 7, 7, size};
    const HostTensor bytes = tensor(DataType::u8, dims, whole), factors = floats({size}, scale);
    const HostTensor zeros = tensor(DataType::u8, {size}, zero);
    const std::map<std::string, Attribute> last = {{"axis", std::int64_t{-1}}};
    expect_op(node_of("DequantizeLinear", last), {bytes, factors, zeros}, {floats(dims, real)});
    expect_op(node_of("QuantizeLinear", last), {floats(dims, real), factors, zeros}, {bytes});
  }
}

TEST(Quantize, Blocks) {
  const std::map<std::string, Attribute> attributes{{"axis", std::int64_t{1}}, {"block_size", std::int64_t{2}}};
  const HostTensor x = floats({3, 4}, {6, 12, 50, 5, 50, 1, 4, 7, 1, 20, 4, 12});
  const HostTensor scale = floats({3, 2}, {1.5, 2.5, 3, 4.9, 5.1, 6.9});
  const HostTensor y = u8({3, 4}, {4, 8, 20, 2, 17, 0, 1, 1, 0, 4, 1, 2});
  expect_op(node_of("QuantizeLinear", attributes), {x, scale}, {y});
  // The last block may be smaller.
  expect_op(node_of("DequantizeLinear", attributes),
            {u8({1, 3}, {1, 2, 3}), floats({1, 2}, {2, 10}), u8({1, 2}, {0, 1})}, {floats({1, 3}, {2, 4, 20})});
  expect_refused(node_of("QuantizeLinear", attributes), {x, floats({3, 1}, {1, 1, 1})}, "block_size=2 needs [3x2]");
}

TEST(Quantize, FewBits) {
  const struct {
    DataType type;
    std::vector<double> values;
  } narrow[] = {{DataType::s4, {-8, -3, 2, 7}},
                {DataType::u4, {0, 0, 2, 12}},
                {DataType::s2, {-2, -2, 1, 1}},
                {DataType::u2, {0, 0, 2, 3}}};
  for (const auto& [type, values] : narrow) {
    SCOPED_TRACE(name_of(type));
    const double zero = type == DataType::s4 || type == DataType::s2 ? -1 : 1;
    const HostTensor x = floats({4}, {-1000, -4, 4, 22});
    std::vector<double> back;
    for (const double q : values) back.push_back((q - zero) * 2);
    const HostTensor scale = floats({}, {2}), zero_point = tensor(type, {}, {zero});
    const auto quantized = run_op(node_of("QuantizeLinear"), {x, scale, zero_point});
    ASSERT_TRUE(quantized.ok()) << quantized.error().message;
    // x / 2 + zero, to the nearest even, within the type's bounds.
    const double low = (*quantized)[0].at(0), high = (*quantized)[0].at(3);
    EXPECT_EQ(low, type == DataType::s4 ? -8 : type == DataType::s2 ? -2 : 0);
    EXPECT_EQ(high, type == DataType::s4 ? 7 : type == DataType::u4 ? 12 : type == DataType::s2 ? 1 : 3);
    EXPECT_EQ((*quantized)[0].at(2), std::min(2 + zero, high));
    expect_op(node_of("DequantizeLinear"), {tensor(type, {4}, values), scale, zero_point}, {floats({4}, back)});
  }
  // Blocks along the first axis, the last of them smaller.
  const std::map<std::string, Attribute> blocks{{"axis", std::int64_t{0}}, {"block_size", std::int64_t{2}}};
  expect_op(node_of("DequantizeLinear", blocks),
            {tensor(DataType::s4, {3, 2}, {-8, 7, 1, 2, 3, 4}), floats({2, 2}, {1, 2, 10, 20}),
             tensor(DataType::s4, {2, 2}, {0, 1, 2, 3})},
            {floats({3, 2}, {-8, 12, 1, 2, 10, 20})});
  expect_op(node_of("QuantizeLinear", {{"output_dtype", std::int64_t{21}}}),
            {floats({3}, {-1, 7.4, 99}), floats({}, {1})}, {tensor(DataType::u4, {3}, {0, 7, 15})});
  // Scales that are powers of two, and the smallest floats.
  expect_op(node_of("DequantizeLinear", {{"output_dtype", std::int64_t{1}}}, 24),
            {tensor(DataType::f4_e2m1, {3}, {6, -0.5, 1}), tensor(DataType::f8_e8m0, {}, {4})},
            {floats({3}, {24, -2, 4})});
  expect_refused(node_of("DequantizeLinear", {}, 24),
                 {tensor(DataType::f4_e2m1, {1}, {1}), tensor(DataType::f8_e8m0, {}, {4})}, "output_dtype");
}

TEST(Quantize, EightBitFloats) {
  expect_op(node_of("QuantizeLinear"),
            {floats({5}, {0, 1, 2, 100000, 200}), floats({1}, {2}), tensor(DataType::f8_e4m3, {1}, {0})},
            {tensor(DataType::f8_e4m3, {5}, {0, 0.5, 1, 448, 96})});
  expect_op(node_of("QuantizeLinear", {{"saturate", std::int64_t{0}}}),
            {floats({4}, {448, 464, 465, -1e9}), floats({1}, {1}), tensor(DataType::f8_e4m3, {1}, {0})},
            {tensor(DataType::f8_e4m3, {4}, {448, 448, NAN, NAN})});
  expect_op(node_of("DequantizeLinear"), {tensor(DataType::f8_e5m2, {2}, {0.5, -96}), floats({}, {2})},
            {floats({2}, {1, -192})});
}

TEST(Quantize, Dynamic) {
  expect_op(node_of("DynamicQuantizeLinear", {}, 11, 3), {floats({6}, {0, 2, -3, -2.5, 1.34, 0.5})},
            {u8({6}, {153, 255, 0, 26, 221, 179}), floats({}, {5 / 255.}), u8({}, {153})});
  expect_op(node_of("DynamicQuantizeLinear", {}, 11, 3), {floats({2}, {0, 0})},
            {u8({2}, {0, 0}), floats({}, {1}), u8({}, {0})});
}

}  // namespace
}  // namespace convoy::ops
