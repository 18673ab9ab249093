#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(Softmax, OneAxisSinceOpset13) {
  const std::vector<double> values = spread(2 * 3 * 4 * 5, -5, 5);
  const HostTensor x = floats({2, 3, 4, 5}, values);
  const Dims dims = {2, 3, 4, 5};
  for (int axis = 0; axis < 4; ++axis) {
    std::vector<double> soft(120), logs(120), hard(120);
    std::int64_t stride = 1;
    for (int d = axis + 1; d < 4; ++d) stride *= dims[d];
    for (std::int64_t i = 0; i < 120; ++i) {
      const std::int64_t first = i / (stride * dims[axis]) * stride * dims[axis] + i % stride;
      double sum = 0, largest = -INFINITY;
      for (std::int64_t k = 0; k < dims[axis]; ++k) {
        sum += std::exp(values[first + k * stride]);
        largest = std::max(largest, values[first + k * stride]);
      }
      soft[i] = std::exp(values[i]) / sum;
      logs[i] = values[i] - std::log(sum);
      hard[i] = values[i] == largest;
    }
    const std::map<std::string, Attribute> attributes = {{"axis", std::int64_t{axis}}};
    expect_op(node_of("Softmax", attributes), {x}, {floats(dims, soft)}, 1e-6, 1e-5);
    expect_op(node_of("LogSoftmax", attributes), {x}, {floats(dims, logs)}, 1e-5, 1e-5);
    expect_op(node_of("Hardmax", attributes), {x}, {floats(dims, hard)});
    expect_op(node_of("Softmax", attributes), {tensor(DataType::f64, dims, values)},
              {tensor(DataType::f64, dims, soft)}, 1e-12, 1e-12);
  }
}

TEST(Softmax, AllDimsFromTheAxisBefore) {
  const HostTensor x = floats({2, 2, 2, 1}, {1, 2, 3, 4, 4, 3, 2, 2});
  std::vector<double> expected;
  for (const double value : {1, 2, 3, 4}) expected.push_back(std::exp(value));
  for (const double value : {4, 3, 2, 2}) expected.push_back(std::exp(value));
  for (int i = 0; i < 8; ++i) {
    expected[i] /=
        i < 4 ? std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4) : std::exp(4) + std::exp(3) + 2 * std::exp(2);
  }
  expect_op(node_of("Softmax", {}, 12), {x}, {floats({2, 2, 2, 1}, expected)});
  expect_op(node_of("Hardmax", {}, 12), {x}, {floats({2, 2, 2, 1}, {0, 0, 0, 1, 1, 0, 0, 0})});
  expect_op(node_of("Softmax"), {floats({2}, {1000, -1000})}, {floats({2}, {1, 0})});
  expect_op(node_of("Softmax"), {floats({2, 0}, {})}, {floats({2, 0}, {})});
  expect_refused(node_of("Softmax", {{"axis", std::int64_t{4}}}), {x}, "axis=4");
}

TEST(BatchNormalization, Inference) {
  const std::vector<double> values = spread(2 * 3 * 2 * 3, -2, 2);
  const double scale[] = {1, 2, -1}, bias[] = {0, 1, 2}, mean[] = {0.5, -0.5, 0}, var[] = {1, 4, 0.25};
  std::vector<double> expected;
  for (int i = 0; i < 36; ++i) {
    const int c = i / 6 % 3;
    expected.push_back(scale[c] * (values[i] - mean[c]) / std::sqrt(var[c] + 1e-3) + bias[c]);
  }
  const auto vector = [](const double* v) { return floats({3}, {v[0], v[1], v[2]}); };
  const std::vector<HostTensor> inputs = {floats({2, 3, 2, 3}, values), vector(scale), vector(bias), vector(mean),
                                          vector(var)};
  for (const int opset : {7, 9, 15}) {
    expect_op(node_of("BatchNormalization", {{"epsilon", 1e-3}}, opset), inputs, {floats({2, 3, 2, 3}, expected)},
              1e-5);
  }
  std::vector<double> bounded = expected;
  for (double& value : bounded) value = std::clamp(value, -0.25, 1.5);
  expect_op(node_of("BatchNormalization", {{"epsilon", 1e-3}, {"least", -0.25}, {"most", 1.5}}), inputs,
            {floats({2, 3, 2, 3}, bounded)}, 1e-5);
  auto wrong = inputs;
  wrong[2] = floats({2}, {0, 0});
  expect_refused(node_of("BatchNormalization"), wrong, "input 2 has 2 elements");
}

TEST(BatchNormalization, PerElementBeforeOpset9) {
  const HostTensor ones = floats({2, 2}, {1, 1, 1, 1}), zeros = floats({2, 2}, {0, 0, 0, 0});
  expect_op(node_of("BatchNormalization", {{"epsilon", 0.0}, {"spatial", std::int64_t{0}}}, 8),
            {floats({1, 2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 3, 4}), zeros, zeros, ones},
            {floats({1, 2, 2}, {1, 4, 9, 16})});
}

TEST(BatchNormalization, Training) {
  // Channel 0 holds 1, 3, 5, 7 (mean 4, variance 5), channel 1 all 2.
  const HostTensor x = floats({2, 2, 2}, {1, 3, 2, 2, 5, 7, 2, 2});
  const double d = std::sqrt(5.0);
  expect_op(
      node_of("BatchNormalization", {{"epsilon", 0.0}, {"training_mode", std::int64_t{1}}, {"momentum", 0.75}}, 15, 3),
      {x, floats({2}, {1, 1}), floats({2}, {0, 1}), floats({2}, {0, 4}), floats({2}, {1, 1})},
      {floats({2, 2, 2}, {-3 / d, -1 / d, NAN, NAN, 1 / d, 3 / d, NAN, NAN}), floats({2}, {1, 3.5}),
       floats({2}, {2, 0.75})});
}

// y, and the mean and 1/deviation of every group, for groups given as a function of the element's index.
struct Normalized {
  std::vector<double> y, mean, inverse;
};
template <class Group>
Normalized normalized(const std::vector<double>& x, std::int64_t groups, double epsilon, Group&& group) {
  Normalized result{x, std::vector<double>(groups, 0), std::vector<double>(groups, 0)};
  const double size = static_cast<double>(x.size()) / static_cast<double>(groups);
  for (std::size_t i = 0; i < x.size(); ++i) result.mean[group(i)] += x[i] / size;
  for (std::size_t i = 0; i < x.size(); ++i) {
    result.inverse[group(i)] += (x[i] - result.mean[group(i)]) * (x[i] - result.mean[group(i)]) / size;
  }
  for (double& value : result.inverse) value = 1 / std::sqrt(value + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) result.y[i] = (x[i] - result.mean[group(i)]) * result.inverse[group(i)];
  return result;
}

TEST(LayerNormalization, EveryAxis) {
  const Dims dims = {2, 3, 4, 5};
  const std::vector<double> values = spread(120, 4, 9);
  for (int axis = 0; axis < 4; ++axis) {
    std::int64_t size = 1;
    Dims inner, outer = dims;
    for (int d = axis; d < 4; ++d) {
      inner.push_back(dims[d]);
      outer[d] = 1;
      size *= dims[d];
    }
    const std::vector<double> scale = spread(size, 1, 2), bias = spread(size, -1, 1);
    Normalized n = normalized(values, 120 / size, 1e-2, [&](std::size_t i) { return i / size; });
    for (int i = 0; i < 120; ++i) n.y[i] *= scale[i % size];
    const std::map<std::string, Attribute> attributes = {{"axis", std::int64_t{axis - 4}}, {"epsilon", 1e-2}};
    expect_op(node_of("LayerNormalization", attributes, 17), {floats(dims, values), floats(inner, scale)},
              {floats(dims, n.y)}, 1e-5);
    for (int i = 0; i < 120; ++i) n.y[i] += bias[i % size];
    expect_op(node_of("LayerNormalization", attributes, 17, 3),
              {floats(dims, values), floats(inner, scale), floats(inner, bias)},
              {floats(dims, n.y), floats(outer, n.mean), floats(outer, n.inverse)}, 1e-5);
  }
  expect_refused(node_of("LayerNormalization"), {floats({1, 2}, {1, 2}), floats({3}, {1, 1, 1})}, "do not broadcast");
}

TEST(RMSNormalization, ByTheRootOfTheMeanOfSquares) {
  const std::vector<double> values = spread(2 * 30, -3, 5), scale = spread(30, 1, 2);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::f64}) {
    const HostTensor x = tensor(type, {2, 30}, values);
    std::vector<double> y;
    for (int i = 0; i < 60; ++i) {
      double squares = 0;
      for (int k = 0; k < 30; ++k) squares += values[i / 30 * 30 + k] * values[i / 30 * 30 + k];
      y.push_back(values[i] / std::sqrt(squares / 30 + 1e-5) * scale[i % 30]);
    }
    const double tolerance = type == DataType::f16 ? 4e-3 : 1e-5;
    expect_op(node_of("RMSNormalization", {}, 23), {x, tensor(type, {30}, scale)}, {tensor(type, {2, 30}, y)},
              tolerance, tolerance);
  }
}

// Rows of halves that are widened once, and longer ones.
TEST(InstanceNormalization, OfHalves) {
  for (const std::int64_t size : {1, 7, 1023, 1500}) {
    SCOPED_TRACE(size);
    const std::vector<double> values = spread(2 * 3 * size, -3, 5), scale = {1, 2, 3}, bias = {-1, 0, 0.5};
    Normalized n = normalized(values, 6, 1e-5, [&](std::size_t i) { return i / size; });
    for (std::size_t i = 0; i < values.size(); ++i) n.y[i] = n.y[i] * scale[i / size % 3] + bias[i / size % 3];
    for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
      const double tolerance = type == DataType::f32 ? 2e-5 : type == DataType::f16 ? 2e-2 : 0.15;
      expect_op(node_of("InstanceNormalization"),
                {tensor(type, {2, 3, size}, values), tensor(type, {3}, scale), tensor(type, {3}, bias)},
                {tensor(type, {2, 3, size}, n.y)}, tolerance, tolerance);
    }
  }
}

TEST(InstanceNormalization, BothLayouts) {
  const Dims dims = {2, 35, 3, 4};
  const std::vector<double> values = spread(2 * 35 * 12, -3, 5), scale = spread(35, 1, 2), bias = spread(35, -1, 1);
  Normalized n = normalized(values, 70, 1e-5, [](std::size_t i) { return i / 12; });
  for (std::size_t i = 0; i < values.size(); ++i) n.y[i] = n.y[i] * scale[i / 12 % 35] + bias[i / 12 % 35];
  expect_op(node_of("InstanceNormalization"), {floats(dims, values), floats({35}, scale), floats({35}, bias)},
            {floats(dims, n.y)}, 1e-5);
  expect_refused(node_of("InstanceNormalization"), {floats(dims, values), floats({1}, {1}), floats({35}, bias)},
                 "input 1 has 1 elements, input 0 has 35 channels");
}

TEST(GroupNormalization, ScalesPerGroupThenPerChannel) {
  const Dims dims = {2, 4, 3};
  const std::vector<double> values = spread(24, -3, 5);
  const Normalized n = normalized(values, 4, 1e-5, [](std::size_t i) { return i / 6; });
  std::vector<double> by_group = n.y, by_channel = n.y;
  for (int i = 0; i < 24; ++i) {
    by_group[i] = by_group[i] * (i / 6 % 2 + 1) + (i / 6 % 2);
    by_channel[i] = by_channel[i] * (i / 3 % 4 + 1) - (i / 3 % 4);
  }
  const std::map<std::string, Attribute> groups = {{"num_groups", std::int64_t{2}}};
  expect_op(node_of("GroupNormalization", groups, 18), {floats(dims, values), floats({2}, {1, 2}), floats({2}, {0, 1})},
            {floats(dims, by_group)}, 1e-5);
  expect_op(node_of("GroupNormalization", groups, 21),
            {floats(dims, values), floats({4}, {1, 2, 3, 4}), floats({4}, {0, -1, -2, -3})}, {floats(dims, by_channel)},
            1e-5);
  expect_refused(node_of("GroupNormalization", {{"num_groups", std::int64_t{3}}}),
                 {floats(dims, values), floats({4}, {1, 2, 3, 4}), floats({4}, {0, 0, 0, 0})}, "num_groups=3");
}

// A mean or a variance that is none makes its row NaN, and no other.
TEST(Normalizations, AnInfinityOrNaNMakesItsRowNaN) {
  struct Case {
    NodeDesc node;
    Dims dims;
    Ints parameters;    // dims of scale and bias
    std::int64_t rows;  // of which the second has it
  };
  const Case cases[] = {{node_of("LayerNormalization"), {3, 45}, {45}, 3},
                        {node_of("LayerNormalization"), {3, 1}, {1}, 3},
                        {node_of("LayerNormalization"), {3, 600}, {1}, 3},
                        {node_of("GroupNormalization", {{"num_groups", std::int64_t{3}}}), {1, 6, 3, 5}, {6}, 3},
                        {node_of("InstanceNormalization"), {1, 20, 3, 15}, {20}, 20},
                        {node_of("InstanceNormalization"), {1, 3, 1, 1}, {3}, 3}};
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::f64}) {
    for (const Case& c : cases) {
      const HostTensor scale = tensor(type, c.parameters, spread(c.parameters[0], 0.5, 2));
      const std::int64_t row = TensorDesc::packed(type, c.dims).elements() / c.rows;
      for (const double bad : {INFINITY, -INFINITY, NAN}) {
        for (const std::int64_t at : {std::int64_t{0}, row / 2, row - 1}) {
          std::vector<double> values = spread(c.rows * row, -3, 5);
          values[row + at] = bad;
          for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
            for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
              if (layout == Layout::nhwc && c.node.op != "InstanceNormalization") continue;
              SCOPED_TRACE(c.node.op + " " + std::string(name_of(type)) + " of " + to_string(c.dims) + ", " +
                           std::to_string(bad) + " at " + std::to_string(at) + ", " + std::string(name_of(isa)) + " " +
                           std::string(name_of(layout, 2)));
              const auto y = run_op(c.node, {tensor(type, c.dims, values), scale, scale},
                                    {.layout = layout, .constants = false, .isa = isa});
              ASSERT_TRUE(y.ok()) << y.error().message;
              for (std::int64_t i = 0; i < c.rows * row; ++i) {
                const double value = y->front().at(i);
                ASSERT_TRUE(i / row == 1 ? std::isnan(value) : std::isfinite(value))
                    << "element " << i << ": " << value;
              }
            }
          }
        }
      }
    }
  }
}

TEST(InstanceNormalization, OfNoPixels) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    const auto y = run_op(node_of("InstanceNormalization"),
                          {floats({1, 3, 0, 2}, {}), floats({3}, {1, 2, 3}), floats({3}, {1, 2, 3})},
                          {.layout = layout, .constants = false});
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_EQ(y->front().desc.elements(), 0);
  }
}

TEST(MeanVarianceNormalization, OverBatchAndPixels) {
  const std::vector<double> values = spread(2 * 3 * 4, -3, 5);
  const Normalized n = normalized(values, 3, 0, [](std::size_t i) { return i / 4 % 3; });
  expect_op(node_of("MeanVarianceNormalization"), {floats({2, 3, 2, 2}, values)}, {floats({2, 3, 2, 2}, n.y)}, 1e-5);
}

TEST(LpNormalization, OneAndTwo) {
  const HostTensor x = floats({2, 2}, {3, 4, 0, 0});
  expect_op(node_of("LpNormalization"), {x}, {floats({2, 2}, {0.6, 0.8, 0, 0})});
  expect_op(node_of("LpNormalization", {{"p", std::int64_t{1}}, {"axis", std::int64_t{0}}}), {x},
            {floats({2, 2}, {1, 1, 0, 0})});
  expect_refused(node_of("LpNormalization", {{"p", std::int64_t{3}}}), {x}, "p=3");
}

// Along a dim of 1 each element is a group.
TEST(Normalizations, OfSingleElements) {
  const std::vector<double> x = {3, -2, 0, 1e-3, INFINITY, NAN};
  const Ints axes = {1};
  for (const DataType type : {DataType::f32, DataType::f16, DataType::f64}) {
    const auto expect = [&](const NodeDesc& node, const std::vector<double>& y) {
      expect_op(node, {tensor(type, {2, 1, 3}, x)}, {tensor(type, {2, 1, 3}, y)});
    };
    expect(node_of("MeanVarianceNormalization", {{"axes", axes}}), {0, 0, 0, 0, NAN, NAN});
    expect(node_of("LpNormalization", {{"axis", std::int64_t{1}}}), {1, -1, 0, 1, NAN, NAN});
    expect(node_of("LpNormalization", {{"axis", std::int64_t{1}}, {"p", std::int64_t{1}}}), {1, -1, 0, 1, NAN, NAN});
    expect(node_of("Softmax", {{"axis", std::int64_t{1}}}), {1, 1, 1, 1, NAN, NAN});
    expect(node_of("LogSoftmax", {{"axis", std::int64_t{1}}}), {0, 0, 0, 0, NAN, NAN});
  }
}

// Odd sizes go to oneDNN, even ones don't; both against the formula.
TEST(LRN, OddAndEvenWindows) {
  const std::vector<double> values = spread(2 * 7 * 6, -3, 3);
  for (const std::int64_t size : {1, 3, 4, 5}) {
    std::vector<double> expected;
    for (int i = 0; i < 84; ++i) {
      const std::int64_t c = i / 6 % 7;
      double sum = 0;
      for (std::int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
        if (k >= 0 && k < 7) sum += values[i + (k - c) * 6] * values[i + (k - c) * 6];
      }
      expected.push_back(values[i] / std::pow(2 + 0.1 / static_cast<double>(size) * sum, 0.75));
    }
    const std::map<std::string, Attribute> attributes = {{"size", size}, {"alpha", 0.1}, {"bias", 2.0}};
    expect_op(node_of("LRN", attributes), {floats({2, 7, 2, 3}, values)}, {floats({2, 7, 2, 3}, expected)}, 1e-5);
    expect_op(node_of("LRN", attributes), {tensor(DataType::f64, {2, 7, 2, 3}, values)},
              {tensor(DataType::f64, {2, 7, 2, 3}, expected)}, 1e-9);
  }
  // A window beyond all channels sums all of them, however large it is.
  expect_op(node_of("LRN", {{"size", (std::int64_t{1} << 62) + 1}, {"alpha", 1.0}, {"beta", 1.0}}),
            {floats({1, 2, 1, 1}, {1, 2})}, {floats({1, 2, 1, 1}, {1, 2})});
  expect_refused(node_of("LRN"), {floats({1, 1}, {1})}, "size=0");
}

}  // namespace
}  // namespace convoy::ops
